/* Matrix products, LSTM steps and character convolutions of ELMo on a CPU, and the elementwise part
 * of recurrent layers in training.
 *
 * Weights are packed once, in the order in which the products read them. A product processes one
 * panel of columns at a time: the weights of a panel stay in the L1 cache while all rows are
 * multiplied with it, and the epilogue (LSTM cell, clip, highway gate) runs on the sums of a panel
 * before the next panel begins. This file starts no threads: each call handles one direction of a
 * range of rows, and the caller runs several calls in parallel.
 *
 * Operands have one of four formats. FLOAT32 uses the vector instructions of any CPU. BFLOAT16 and
 * INT8 use AMX tiles (newer Xeons) or dot-product instructions (AVX512-BF16; AVX512-VNNI or ARM's
 * SDOT). Accumulators and LSTM cells are float32 in all formats, except that int8 products are
 * accumulated exactly in int32. With INT8 each row has one scale: the scale of a weight row is
 * computed when it is packed, the scale of an input row when the input is written.
 *
 * INT8X3 is the int8 decomposition of float32 for AMX, which is faster than float32 vectors: each
 * number is a 24-bit integer of three int8 digits. Of the nine products of digits the six largest
 * are summed, exactly. The omitted products are smaller than the rounding error of a float32 sum,
 * unless a row contains values that are thousands of times larger than the ones that matter.
 */
#include <stdint.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#ifdef __AVX512F__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define HAS_INT8 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define HAS_INT8 1
#else
#define HAS_INT8 0
#endif
#if HAS_INT8 && defined(__AVX512BF16__)
#define HAS_BFLOAT16 1
#else
#define HAS_BFLOAT16 0
#endif
#if HAS_BFLOAT16 && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
#define HAS_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_AMX 0
#endif
/* AVX512-VNNI multiplies unsigned bytes of the input with signed bytes of the weights. Inputs are
 * stored with this offset, and its contribution is subtracted from the sums: see
 * `multiply_panel_dots`. */
#if defined(__AVX512VNNI__) && !HAS_AMX
#define INT8_OFFSET 128
#else
#define INT8_OFFSET 0
#endif

#define INLINE static inline __attribute__((always_inline))

enum { FLOAT32, BFLOAT16, INT8, INT8X3 };

/* Rows and 32-bit columns of an AMX tile. LSTM units are computed in blocks of this size. */
#define TILE 16

/* Floats of a vector. It has the native register width: compilers spill wider ones to memory. */
#if defined(__AVX512F__)
#define VECTOR 16
#elif defined(__AVX__)
#define VECTOR 8
#else
#define VECTOR 4
#endif
#define TILE_VECTORS (TILE / VECTOR)
typedef float vec __attribute__((vector_size(4 * VECTOR)));
typedef float unaligned_vec __attribute__((vector_size(4 * VECTOR), aligned(4)));
typedef int32_t int_vec __attribute__((vector_size(4 * VECTOR)));
typedef uint16_t bfloat16_vec __attribute__((vector_size(2 * VECTOR), aligned(2)));
typedef int8_t int8_vec __attribute__((vector_size(VECTOR), aligned(1)));

/* ------------------------------------------------------------------ vectors */

INLINE vec splat(float x) { return x - (vec){0}; }
INLINE vec load_floats(const float *at) { return *(const unaligned_vec *)at; }
INLINE void store_floats(float *at, vec x) { *(unaligned_vec *)at = x; }

INLINE vec blend(int_vec mask, vec if_set, vec if_clear) {
  return (vec)((mask & (int_vec)if_set) | (~mask & (int_vec)if_clear));
}

/* NaN is preserved. */
INLINE vec clip(vec x, float bound) {
#ifdef __AVX512F__
  __m512 high = _mm512_set1_ps(bound), low = _mm512_set1_ps(-bound);
  return (vec)_mm512_min_ps(high, _mm512_max_ps(low, (__m512)x));
#elif defined(__aarch64__)
  return (vec)vminq_f32(vmaxq_f32((float32x4_t)x, vdupq_n_f32(-bound)), vdupq_n_f32(bound));
#else
  x = blend(x > splat(bound), splat(bound), x);
  return blend(x < splat(-bound), splat(-bound), x);
#endif
}

/* 1.5 * 2^23: adding it rounds to an integer and leaves the integer in the low bits. */
#define ROUNDING 12582912.0f

/* 1 / (1 + 2^x) to seven digits. Both sigmoid and tanh are this function of a scaled argument. */
INLINE vec reciprocal_1p_exp2(vec x) {
  const vec magic = splat(ROUNDING);
  x = clip(x, 120.0f);
  vec shifted = x + magic;
  vec r = x - (shifted - magic);
  vec p = r * splat(1.5403530e-4f) + splat(1.3333558e-3f);
  p = p * r + splat(9.6181291e-3f);
  p = p * r + splat(5.5504109e-2f);
  p = p * r + splat(0.24022651f);
  p = p * r + splat(0.69314718f);
  p = p * r + splat(1.0f);
  vec d = splat(1.0f) + (vec)((int_vec)p + ((int_vec)shifted << 23));
#ifdef __AVX512F__
  vec y = (vec)_mm512_rcp14_ps((__m512)d); /* one Newton step is faster than a division */
  return y * (splat(2.0f) - d * y);
#else
  return splat(1.0f) / d;
#endif
}

/* The same to four digits, which is more than low-precision products have. */
INLINE vec reciprocal_1p_exp2_fast(vec x) {
#ifdef __AVX512DQ__
  vec r = (vec)_mm512_reduce_ps((__m512)x, 1); /* x - floor(x) */
  vec p = r * splat(0.07802452f) + splat(0.22606716f);
  p = p * r + splat(0.69583354f);
  p = p * r + splat(0.99992522f);
  p = (vec)_mm512_scalef_ps((__m512)p, (__m512)x);
  return (vec)_mm512_rcp14_ps((__m512)(splat(1.0f) + p));
#else
  return reciprocal_1p_exp2(x);
#endif
}

INLINE vec sigmoid(vec x, int is_fast) {
  x *= splat(-1.44269504f);
  return is_fast ? reciprocal_1p_exp2_fast(x) : reciprocal_1p_exp2(x);
}

INLINE vec tanh_vec(vec x, int is_fast) {
  x *= splat(2.88539008f);
  return splat(1.0f) -
         splat(2.0f) * (is_fast ? reciprocal_1p_exp2_fast(x) : reciprocal_1p_exp2(x));
}

INLINE vec load_bfloat16(const uint16_t *at) {
  int_vec bits = __builtin_convertvector(*(const bfloat16_vec *)at, int_vec);
  return (vec)(bits << 16);
}

INLINE void store_bfloat16(uint16_t *at, vec x) {
#if HAS_BFLOAT16
  *(bfloat16_vec *)at = (bfloat16_vec)_mm512_cvtneps_pbh((__m512)x);
#else
  int_vec bits = (int_vec)x, odd = (bits >> 16) & 1;
  int_vec rounded = (bits + odd + 0x7fff) >> 16;
  int_vec is_nan = x != x; /* rounding could carry a NaN over to another value */
  *(bfloat16_vec *)at =
      __builtin_convertvector((rounded & ~is_nan) | (is_nan & 0x7fc0), bfloat16_vec);
#endif
}

/* For values between -127 and 127. */
INLINE void store_int8(int8_t *at, vec x) {
  const vec magic = splat(ROUNDING);
  int_vec rounded = (int_vec)(x + magic) - (int_vec)magic;
  *(int8_vec *)at = __builtin_convertvector(rounded + INT8_OFFSET, int8_vec);
}

/* The largest absolute value of a row; NaN if the row contains NaN. */
INLINE float max_abs(const float *row, long n) {
  vec maxima = {0};
  for (long i = 0; i < n; i += VECTOR) {
    vec x = (vec)((int_vec)load_floats(row + i) & 0x7fffffff);
    maxima = blend((x > maxima) | (x != x), x, maxima);
  }
  float maximum = 0;
  for (int i = 0; i < VECTOR; i++)
    maximum = maxima[i] > maximum || maxima[i] != maxima[i] ? maxima[i] : maximum;
  return maximum;
}

/* ------------------------------------------------------------------ products */

/* Register blocking: rows and columns whose sums are kept in registers. A panel is four vectors
 * wide with 32 vector registers (AVX-512), and two AVX vectors with 16. When two hardware threads
 * share a core, instruction decoding is the limit: six rows by four vectors need the fewest
 * instructions other than multiplications. */
#define REGISTER_ROWS 6
#ifdef __AVX512F__
#define PANEL 64
#else
#define PANEL 16
#endif
#define DEPTH_BLOCK 512

/* Weights come from the L3 cache, whose latency would stall the products. So the next panel is
 * prefetched while the current one is multiplied: `prefetch_lines` cache lines for each four
 * numbers of a row, so that the whole panel has been requested when all rows are done. With few
 * rows most of the time is spent on loading weights; then weights of the same panel are prefetched
 * instead, PREFETCH_DISTANCE numbers of a row ahead. */
#define PANEL_LINES (PANEL / TILE) /* cache lines of a panel per number of a row */
#define PREFETCH_DISTANCE 12
enum { SAME_PANEL = 0 };
INLINE int prefetch_lines(long n) {
  return n < 4 * REGISTER_ROWS ? SAME_PANEL : n < 4 * PANEL_LINES * REGISTER_ROWS ? PANEL_LINES : 1;
}

INLINE long bytes_per_number(int format) {
  return format == BFLOAT16 ? 2 : format == INT8 ? 1 : format == INT8X3 ? 3 : 4;
}

/* With INT8X3 the high digits of 64 numbers are followed by their middle and their low digits. */
#define DIGIT_STRIDE 64

/* The integer to which the largest number of a row is scaled. For three digits it leaves a margin,
 * because splitting into signed digits can carry into the high digit. */
INLINE float max_quantized(int format) { return format == INT8X3 ? 0x7f7f00 : 127; }

/* Whether rows and weights have a scale. */
INLINE int has_scale(int format) { return format == INT8 || format == INT8X3; }

/* Number of sums that a product leaves per output number. */
INLINE long sums_per_number(int format) { return format == INT8X3 ? 3 : 1; }

/* Whether gates are stored as bfloat16 and activations approximated: the products are not more
 * precise than that. */
INLINE int is_low_precision(int format) { return format == BFLOAT16 || format == INT8; }

/* The address of a byte of a row in packed rows: tiles of 64 bytes from each row of a row block.
 * Whole rows whose stride is a power of two would cause cache conflicts. */
INLINE char *packed_at(int format, char *rows, long row, long byte, long row_bytes) {
  const long block = format == FLOAT32 || !HAS_AMX ? REGISTER_ROWS : 16;
  return rows + (row / block * row_bytes + byte / 64 * 64) * block + row % block * 64 + byte % 64;
}

/* On ARM the multiplication reads its scalar factor directly from a vector element: broadcasting it
 * first would occupy the multiplication units. `volatile` keeps the order: compilers would move
 * loads so far ahead that the sums are spilled from their registers. */
INLINE vec multiply_add(vec sum, float x, vec w) {
#ifdef __aarch64__
  __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(w), "w"(x));
  return sum;
#else
  return sum + splat(x) * w;
#endif
}

#define PANEL_VECTORS (PANEL / VECTOR)

/* Multiply a block of rows (n, k) with a packed panel into (n, PANEL), added to `out` if
 * `accumulate`; prefetch `lines` cache lines of `next` per four numbers of a row. */
INLINE void multiply_row_block(int n, int lines, const float *a, const float *w, const char *next,
                               long k, int accumulate, float *out, long out_stride) {
  vec sums[REGISTER_ROWS][PANEL_VECTORS];
  for (int r = 0; r < n; r++)
    for (int v = 0; v < PANEL_VECTORS; v++)
      sums[r][v] = accumulate ? load_floats(out + r * out_stride + v * VECTOR) : (vec){0};
  for (long tile = 0; tile < k; tile += TILE, a += (REGISTER_ROWS - 1) * TILE)
    for (long four = 0; four < TILE; four += 4, a += 4, w += 4 * PANEL, next += 64 * lines) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        vec b[PANEL_VECTORS];
        for (int v = 0; v < PANEL_VECTORS; v++) b[v] = *(const vec *)(w + i * PANEL + v * VECTOR);
        if (lines == SAME_PANEL)
          for (int line = 0; line < PANEL_LINES; line++)
            __builtin_prefetch(w + (PREFETCH_DISTANCE + i) * PANEL + line * TILE, 0, 3);
        else if (i < lines)
          __builtin_prefetch(next + 64 * i, 0, 2);
        for (int r = 0; r < n; r++) {
          const float x = a[r * TILE + i];
          for (int v = 0; v < PANEL_VECTORS; v++) sums[r][v] = multiply_add(sums[r][v], x, b[v]);
        }
      }
    }
  for (int r = 0; r < n; r++)
    for (int v = 0; v < PANEL_VECTORS; v++)
      store_floats(out + r * out_stride + v * VECTOR, sums[r][v]);
}

/* The size of the next row block when `remaining` rows are left. */
INLINE long row_block_size(long remaining) {
  return remaining >= REGISTER_ROWS ? REGISTER_ROWS : remaining >= 4 ? 4 : remaining >= 2 ? 2 : 1;
}

/* The offset of a row block in packed rows of `width` numbers. */
INLINE long row_block_offset(long row, long width) {
  return row / REGISTER_ROWS * REGISTER_ROWS * width + row % REGISTER_ROWS * TILE;
}

/* `multiply_row_block` with the number of rows as a constant, so that its loops are unrolled. */
INLINE void multiply_unrolled(long n, int lines, const float *a, const float *w, const char *next,
                              long k, int accumulate, float *out, long out_stride) {
  if (n == REGISTER_ROWS)
    multiply_row_block(REGISTER_ROWS, lines, a, w, next, k, accumulate, out, out_stride);
  else if (n == 4)
    multiply_row_block(4, lines, a, w, next, k, accumulate, out, out_stride);
  else if (n == 2)
    multiply_row_block(2, lines, a, w, next, k, accumulate, out, out_stride);
  else
    multiply_row_block(1, lines, a, w, next, k, accumulate, out, out_stride);
}

/* Multiply rows with a packed panel. Long rows are processed in blocks of DEPTH_BLOCK numbers, so
 * that the weights of a block stay in the L2 cache while all rows are multiplied with them. */
static __attribute__((noinline)) void multiply_panel_floats(const float *a, long k, long n,
                                                            const float *w, int accumulate,
                                                            float *out, long out_stride) {
  const int lines = prefetch_lines(n);
  const char *next = (const char *)(w + k * PANEL), *next_end = next + 4 * k * PANEL;
  for (long from = 0; from < k;
       from += DEPTH_BLOCK, a += DEPTH_BLOCK * REGISTER_ROWS, w += DEPTH_BLOCK * PANEL,
            accumulate = 1) {
    const long depth = k - from < DEPTH_BLOCK ? k - from : DEPTH_BLOCK;
    for (long r = 0, rows; r < n; r += rows, next += 16 * depth * lines) {
      const float *first = a + row_block_offset(r, k);
      float *to = out + r * out_stride;
      const char *prefetch = next < next_end ? next : (const char *)w;
      rows = row_block_size(n - r);
      if (lines == 1)
        multiply_unrolled(rows, 1, first, w, prefetch, depth, accumulate, to, out_stride);
      else if (lines == PANEL_LINES)
        multiply_unrolled(rows, PANEL_LINES, first, w, prefetch, depth, accumulate, to, out_stride);
      else
        multiply_unrolled(rows, SAME_PANEL, first, w, prefetch, depth, accumulate, to, out_stride);
    }
  }
}

#if HAS_AMX

/* A tile has 16 rows of 64 bytes. A panel is two tiles wide: a tile of each for every 64 bytes of a
 * row. The number of rows in memory is a multiple of 16. */
#define TILE_BYTES 1024
#define TILE_DEPTH_BLOCK 8

typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_config;

static void load_tile_config(void) {
  tile_config config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int tile = 0; tile < 8; tile++) config.rows[tile] = 16, config.row_bytes[tile] = 64;
  _tile_loadconfig(&config);
}

#define MULTIPLY_TILES(sum, a, b)           \
  do {                                      \
    if (format == INT8)                     \
      _tile_dpbssd(sum, a, b);              \
    else                                    \
      _tile_dpbf16ps(sum, a, b);            \
  } while (0)

/* Tiles of a row that are multiplied at a time: with INT8X3 one for each digit. */
INLINE long tiles_per_step(int format) { return format == INT8X3 ? 3 : 1; }

/* Columns of a panel: two tiles. With INT8X3 one tile, because it has three sums. */
INLINE long tile_panel(int format) { return format == INT8X3 ? 16 : 32; }

#define LOAD_AND_MULTIPLY(sum, a) \
  do {                            \
    _tile_loadd(6, a, 64);        \
    _tile_dpbssd(sum, 6, 7);      \
  } while (0)

/* Multiply 16 or 32 (`is_pair`) rows of INT8X3 numbers with a tile of columns. Sums 0 and 2 (first
 * and second row tile) hold high x high digits, 1 and 3 hold high x middle, 4 and 5 hold high x low
 * and middle x middle. The order is such that each product needs only one new tile. */
INLINE void multiply_digits(int is_pair, const char *a0, const char *a1, const char *w) {
  enum { MIDDLE = TILE_BYTES, LOW = 2 * TILE_BYTES };
  _tile_loadd(7, w, 64);
  LOAD_AND_MULTIPLY(0, a0);
  LOAD_AND_MULTIPLY(1, a0 + MIDDLE);
  LOAD_AND_MULTIPLY(4, a0 + LOW);
  if (is_pair) {
    LOAD_AND_MULTIPLY(5, a1 + LOW);
    LOAD_AND_MULTIPLY(3, a1 + MIDDLE);
    LOAD_AND_MULTIPLY(2, a1);
  }
  _tile_loadd(7, w + MIDDLE, 64);
  if (is_pair) {
    _tile_dpbssd(3, 6, 7);
    LOAD_AND_MULTIPLY(5, a1 + MIDDLE);
  }
  LOAD_AND_MULTIPLY(4, a0 + MIDDLE);
  LOAD_AND_MULTIPLY(1, a0);
  _tile_loadd(7, w + LOW, 64);
  _tile_dpbssd(4, 6, 7);
  if (is_pair) LOAD_AND_MULTIPLY(5, a1);
}

/* Multiply one row tile, or two (`is_pair`), with a panel and add to the sums. */
INLINE void multiply(int format, int is_pair, const char *a0, const char *a1, const char *w0,
                     const char *w1) {
  if (format == INT8X3) {
    multiply_digits(is_pair, a0, a1, w0);
    return;
  }
  _tile_loadd(4, a0, 64);
  _tile_loadd(6, w0, 64);
  MULTIPLY_TILES(0, 4, 6);
  _tile_loadd(7, w1, 64);
  MULTIPLY_TILES(1, 4, 7);
  if (is_pair) {
    _tile_loadd(5, a1, 64);
    MULTIPLY_TILES(2, 5, 6);
    MULTIPLY_TILES(3, 5, 7);
  }
}

/* Initialize the sums with zero, or with the values at `at` if `accumulate`. The tiles of a row are
 * `tile_offset` numbers apart. */
INLINE void load_sums(int format, int accumulate, int is_pair, const float *at, long stride,
                      long tile_offset) {
  const float *below = at + 16 * stride;
  if (!accumulate) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (format == INT8X3) {
      _tile_zero(4);
      _tile_zero(5);
    }
    return;
  }
  _tile_loadd(0, at, 4 * stride);
  _tile_loadd(1, at + tile_offset, 4 * stride);
  if (format == INT8X3) _tile_loadd(4, at + 2 * tile_offset, 4 * stride);
  if (is_pair) {
    _tile_loadd(2, below, 4 * stride);
    _tile_loadd(3, below + tile_offset, 4 * stride);
    if (format == INT8X3) _tile_loadd(5, below + 2 * tile_offset, 4 * stride);
  }
}

INLINE void store_sums(int format, int is_pair, float *at, long stride, long tile_offset) {
  float *below = at + 16 * stride;
  _tile_stored(0, at, 4 * stride);
  _tile_stored(1, at + tile_offset, 4 * stride);
  if (format == INT8X3) _tile_stored(4, at + 2 * tile_offset, 4 * stride);
  if (is_pair) {
    _tile_stored(2, below, 4 * stride);
    _tile_stored(3, below + tile_offset, 4 * stride);
    if (format == INT8X3) _tile_stored(5, below + 2 * tile_offset, 4 * stride);
  }
}

/* Prefetch half as many tiles of weights as one step multiplies (see `prefetch_lines`). Returns
 * where to continue. */
INLINE const char *prefetch_tiles(int format, const char *next, const char *next_end) {
  const long size = tiles_per_step(format) * TILE_BYTES / 2;
  if (next >= next_end) return next;
  for (long byte = 0; byte < size; byte += 64) __builtin_prefetch(next + byte, 0, 2);
  return next + size;
}

/* Multiply rows, `depth` tiles deep, with a panel into float32 or int32 sums. The weights of a
 * depth block stay in the L1 cache while all rows are multiplied with them. */
INLINE void multiply_panel(int format, const char *a, long depth, long n, const char *w,
                           int accumulate, float *out, long out_stride) {
  const long strip = depth * TILE_BYTES, step = tiles_per_step(format);
  const long tile_offset = format == INT8X3 ? out_stride / 3 : 16;
  const char *next = w + tile_panel(format) / 16 * strip;
  const char *next_end = next + tile_panel(format) / 16 * strip;
  for (long from = 0; from < depth; from += TILE_DEPTH_BLOCK * step, accumulate = 1) {
    const long to =
        depth - from < TILE_DEPTH_BLOCK * step ? depth : from + TILE_DEPTH_BLOCK * step;
    for (long r = 0; r < n; r += 32) {
      const char *a0 = a + r / 16 * strip, *w0 = w, *w1 = w + strip;
      float *at = out + r * out_stride;
      const int is_pair = n - r > 16;
      load_sums(format, accumulate, is_pair, at, out_stride, tile_offset);
      for (long i = from; i < to; i += step) {
        multiply(format, is_pair, a0 + TILE_BYTES * i, a0 + strip + TILE_BYTES * i,
                 w0 + TILE_BYTES * i, w1 + TILE_BYTES * i);
        next = prefetch_tiles(format, next, next_end);
      }
      store_sums(format, is_pair, at, out_stride, tile_offset);
    }
  }
}
#endif

#if HAS_INT8 && !HAS_AMX

/* Two bfloat16 or four int8 numbers, in the type of register from which the product reads them. */
#ifdef __aarch64__
typedef float packed_factors;
#else
typedef int32_t packed_factors;
#endif

/* Add the dot products of two bfloat16 or four int8 numbers; see `multiply_add`. */
INLINE int_vec dot_add(int format, int_vec sums, packed_factors x, int_vec w) {
#ifdef __aarch64__
  (void)format;
  __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(w), "w"(x));
  return sums;
#else
  const __m512i broadcast = _mm512_set1_epi32(x);
#if HAS_BFLOAT16
  if (format == BFLOAT16)
    return (int_vec)_mm512_dpbf16_ps((__m512)sums, (__m512bh)broadcast, (__m512bh)w);
#endif
  (void)format;
  return (int_vec)_mm512_dpbusd_epi32((__m512i)sums, broadcast, (__m512i)w);
#endif
}

/* The address of vector `v` of a panel, whose tiles of 16 columns are `strip` bytes apart. */
INLINE const char *panel_vector(const char *w, int v, long strip) {
  return w + v * VECTOR / TILE * strip + v * VECTOR % TILE * 4;
}

/* Multiply a block of rows with a panel, four bytes of a row at a time. `correction` is the
 * contribution of INT8_OFFSET to the sums. */
INLINE void dot_row_block(int format, int n, int lines, const char *a, long depth, const char *w,
                          const char *next, const int_vec *correction, int accumulate, float *out,
                          long out_stride) {
  const long strip = depth * 1024;
  int_vec sums[REGISTER_ROWS][PANEL_VECTORS];
  for (int r = 0; r < n; r++)
    for (int v = 0; v < PANEL_VECTORS; v++) {
      vec initial = accumulate ? load_floats(out + r * out_stride + v * VECTOR) : (vec){0};
      sums[r][v] = (int_vec)initial - correction[v];
    }
  for (long tile = 0; tile < depth; tile++, a += (REGISTER_ROWS - 1) * 64)
    for (long four = 0; four < TILE; four += 4, a += 16, w += 256, next += 64 * lines)
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        int_vec b[PANEL_VECTORS];
        for (int v = 0; v < PANEL_VECTORS; v++)
          b[v] = *(const int_vec *)panel_vector(w + 64 * i, v, strip);
        if (lines == SAME_PANEL)
          for (int line = 0; line < PANEL_LINES; line++)
            __builtin_prefetch(w + line * strip + 64 * (PREFETCH_DISTANCE + i), 0, 3);
        else if (i < lines)
          __builtin_prefetch(next + 64 * i, 0, 2);
        for (int r = 0; r < n; r++) {
          packed_factors x;
          memcpy(&x, a + 64 * r + 4 * i, 4);
          for (int v = 0; v < PANEL_VECTORS; v++)
            sums[r][v] = dot_add(format, sums[r][v], x, b[v]);
        }
      }
  for (int r = 0; r < n; r++)
    for (int v = 0; v < PANEL_VECTORS; v++)
      store_floats(out + r * out_stride + v * VECTOR, (vec)sums[r][v]);
}

/* `dot_row_block` with the number of rows as a constant, so that its loops are unrolled. */
INLINE void dot_unrolled(int format, long n, int lines, const char *a, long depth, const char *w,
                         const char *next, const int_vec *correction, int accumulate, float *out,
                         long out_stride) {
  if (n == REGISTER_ROWS)
    dot_row_block(format, REGISTER_ROWS, lines, a, depth, w, next, correction, accumulate, out,
                  out_stride);
  else if (n == 4)
    dot_row_block(format, 4, lines, a, depth, w, next, correction, accumulate, out, out_stride);
  else if (n == 2)
    dot_row_block(format, 2, lines, a, depth, w, next, correction, accumulate, out, out_stride);
  else
    dot_row_block(format, 1, lines, a, depth, w, next, correction, accumulate, out, out_stride);
}

INLINE void multiply_panel_dots(int format, const char *a, long depth, long n, const char *w,
                                int accumulate, float *out, long out_stride) {
  const int lines = prefetch_lines(n);
  const char *next = w + PANEL_LINES * depth * 1024, *next_end = next + PANEL_LINES * depth * 1024;
  int_vec correction[PANEL_VECTORS] = {{0}};
#if INT8_OFFSET
  if (format == INT8) {
    const packed_factors offsets = (packed_factors)(INT8_OFFSET * 0x01010101u);
    for (int v = 0; v < PANEL_VECTORS; v++)
      for (long i = 0; i < 16 * depth; i++) {
        const char *at = panel_vector(w + 64 * i, v, depth * 1024);
        correction[v] = dot_add(INT8, correction[v], offsets, *(const int_vec *)at);
      }
  }
#endif
  for (long r = 0, rows; r < n; r += rows, next += 256 * depth * lines) {
    const char *first = a + 4 * row_block_offset(r, 16 * depth);
    float *to = out + r * out_stride;
    const char *prefetch = next < next_end ? next : w;
    rows = row_block_size(n - r);
    if (lines == 1)
      dot_unrolled(format, rows, 1, first, depth, w, prefetch, correction, accumulate, to,
                   out_stride);
    else if (lines == PANEL_LINES)
      dot_unrolled(format, rows, PANEL_LINES, first, depth, w, prefetch, correction, accumulate, to,
                   out_stride);
    else
      dot_unrolled(format, rows, SAME_PANEL, first, depth, w, prefetch, correction, accumulate, to,
                   out_stride);
  }
}

/* Not inlined: the code is long and has several callers. */
static __attribute__((noinline)) void multiply_panel(int format, const char *a, long depth, long n,
                                                     const char *w, int accumulate, float *out,
                                                     long out_stride) {
#if HAS_BFLOAT16
  if (format == BFLOAT16) {
    multiply_panel_dots(BFLOAT16, a, depth, n, w, accumulate, out, out_stride);
    return;
  }
#endif
  (void)format;
  multiply_panel_dots(INT8, a, depth, n, w, accumulate, out, out_stride);
}
#endif

/* Columns that `multiply_columns` computes. */
INLINE long column_block(int format) { return HAS_AMX && format != FLOAT32 ? 32 : 64; }

/* Multiply packed rows (see `packed_at`) with one block of columns of packed weights into
 * (n, column_block), added to `out` if `accumulate`. INT8 leaves integers that still need their
 * scale; INT8X3 leaves three such blocks, one column block apart. */
INLINE void multiply_columns(int format, const char *a, long k, long n, const char *w, long column,
                             int accumulate, float *out, long out_stride) {
  const long size = bytes_per_number(format);
  const char *from = w + column * k * size;
#if HAS_INT8
  if (format != FLOAT32) {
#if HAS_AMX
    const long width = tile_panel(format);
#else
    const long width = PANEL;
#endif
    for (long first = 0; first < column_block(format); first += width)
      multiply_panel(format, a, k * size / 64, n, from + first * k * size, accumulate, out + first,
                     out_stride);
    return;
  }
#endif
  for (int first = 0; first < 64; first += PANEL)
    multiply_panel_floats((const float *)a, k, n, (const float *)from + first * k, accumulate,
                          out + first, out_stride);
}

/* The AMX tile registers are configured and released in each call. */
INLINE void acquire_tiles(int format) {
#if HAS_AMX
  if (format != FLOAT32) load_tile_config();
#endif
  (void)format;
}

INLINE void release_tiles(int format) {
#if HAS_AMX
  if (format != FLOAT32) _tile_release();
#endif
  (void)format;
}

/* The sums of a product as float32 numbers. With INT8X3 the sums of the high, middle and low digits
 * are `digit_offset` numbers apart. */
INLINE vec dequantize(int format, const float *at, long digit_offset, const float *w_scale,
                      float row_scale) {
  if (!has_scale(format)) return load_floats(at);
  vec x = __builtin_convertvector((int_vec)load_floats(at), vec);
  if (format == INT8X3) {
    vec middle = __builtin_convertvector((int_vec)load_floats(at + digit_offset), vec);
    vec low = __builtin_convertvector((int_vec)load_floats(at + 2 * digit_offset), vec);
    x = (x * splat(256) + middle) * splat(256) + low;
    row_scale *= 65536; /* the place value of the last sum */
  }
  return x * (load_floats(w_scale) * splat(row_scale));
}

/* Store numbers `i` to `i + VECTOR` of a row of `n` numbers in packed rows. */
INLINE void store_packed(int format, char *rows, long r, long i, long n, vec x) {
  const long size = bytes_per_number(format);
#if HAS_AMX
  if (format == INT8X3) {
    int_vec rest = (int_vec)_mm512_cvtps_epi32((__m512)x);
    for (long digit = 2; digit >= 0; digit--) {
      const long at = i / DIGIT_STRIDE * DIGIT_STRIDE * 3 + digit * DIGIT_STRIDE + i % DIGIT_STRIDE;
      const int_vec low = rest << 24 >> 24; /* sign-extended */
      *(int8_vec *)packed_at(format, rows, r, at, n * size) =
          __builtin_convertvector(low, int8_vec);
      rest = (rest - low) >> 8;
    }
    return;
  }
#endif
  char *at = packed_at(format, rows, r, i * size, n * size);
  if (format == FLOAT32)
    store_floats((float *)at, x);
  else if (format == BFLOAT16)
    store_bfloat16((uint16_t *)at, x);
  else
    store_int8((int8_t *)at, x);
}

/* Store a row in packed rows. Returns its scale. */
INLINE float pack_row(int format, const float *row, long n, char *rows, long r) {
  const float maximum = has_scale(format) ? max_abs(row, n) : 0;
  const vec factor = splat(maximum > 0 ? max_quantized(format) / maximum : 0);
  for (long i = 0; i < n; i += VECTOR) {
    vec x = load_floats(row + i);
    store_packed(format, rows, r, i, n, has_scale(format) ? x * factor : x);
  }
  return has_scale(format) ? maximum / max_quantized(format) : 1;
}

/* ------------------------------------------------------------------ exported functions */

/* Request the kernel's permission to use AMX tiles. Returns whether it was granted. */
static int has_tile_permission(void) {
#if HAS_AMX
  enum { REQUEST = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return 1;
#endif
}

/* Whether this CPU and this build support a format. */
int supports(int format) {
  if (format == FLOAT32) return 1;
  const int is_built = format == INT8 ? HAS_INT8 : format == BFLOAT16 ? HAS_BFLOAT16 : HAS_AMX;
  return is_built && has_tile_permission();
}

/* The instructions that the compiler was allowed to use, from which the supported formats follow.
 * Not derived from HAS_INT8 and so on, so that a test can compare both. */
const char *instructions(void) {
#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
  return has_tile_permission() ? "AMX" : "AMX (not permitted)";
#elif defined(__AVX512BF16__)
  return "AVX512-BF16";
#elif defined(__AVX512VNNI__)
  return "AVX512-VNNI";
#elif defined(__ARM_FEATURE_DOTPROD) && defined(__aarch64__)
  return "ARM dot products";
#else
  return "float32 vectors";
#endif
}

/* A checksum of all bytes. Each chain is a sequence of invertible steps, so that a change of a
 * single number always changes the checksum. The shift moves high bits down, where the next product
 * spreads them: changed signs do not cancel out. */
uint64_t checksum(const char *bytes, long n) {
  typedef uint32_t uint_vec __attribute__((vector_size(4 * VECTOR)));
  enum { STRIPE = 128, N = STRIPE / (4 * VECTOR) };
  uint_vec chains[N], x[N];
  for (int i = 0; i < N; i++) chains[i] = (uint_vec){0} + (uint32_t)(i + 1) * 0x9e3779b1u;
  for (long at = 0; at < n; at += STRIPE) {
    if (n - at >= STRIPE) {
      memcpy(x, bytes + at, STRIPE);
    } else {
      memset(x, 0, STRIPE);
      memcpy(x, bytes + at, n - at);
    }
    for (int i = 0; i < N; i++) {
      chains[i] = (chains[i] ^ x[i]) * 0x85ebca77u + 0xc2b2ae3du;
      chains[i] ^= chains[i] >> 15;
    }
  }
  uint64_t total = (uint64_t)n;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < VECTOR; j++) {
      total = (total ^ chains[i][j]) * 0xd6e8feb86659fd93u;
      total ^= total >> 32;
    }
  return total;
}

/* Use huge pages for fresh memory: random reads of weights and gates would cause TLB misses. */
void use_huge_pages(char *at, long n) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  madvise(at, n, MADV_HUGEPAGE);
#else
  (void)at, (void)n;
#endif
}

static uint16_t to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)((bits + ((bits >> 16) & 1) + 0x7fff) >> 16);
}

/* See `pack`. The format is a constant here, so that the inner loop does not branch on it. */
INLINE void pack_format(int format, const float *w, long n, long k, long block, char *out,
                        float *scale) {
  const long width = format == FLOAT32 ? PANEL : 16;
  /* Consecutive numbers of a column that one dot product reads. */
  const long group = format == FLOAT32 ? 1 : format == BFLOAT16 ? 2 : 4;
  for (long column = 0; column < n; column++, w += k) {
    const float maximum = has_scale(format) ? max_abs(w, k) : 0;
    const float factor = maximum > 0 ? max_quantized(format) / maximum : 0;
    if (has_scale(format)) scale[column] = maximum / max_quantized(format);
    for (long first = 0; first < k; first += block) {
      const float *row = w + first;
      char *panel = out + (first * n + column / width * width * block) * bytes_per_number(format);
      for (long i = 0; i < block; i++) {
        const long at = (i / group * width + column % width) * group + i % group;
        if (format == FLOAT32) {
          ((float *)panel)[at] = row[i];
        } else if (format == INT8) {
          const float x = row[i] * factor + ROUNDING;
          uint32_t bits;
          memcpy(&bits, &x, 4);
          panel[at] = (char)bits;
        } else if (format == BFLOAT16) {
          ((uint16_t *)panel)[at] = to_bfloat16(row[i]);
        } else {
          const float x = row[i] * factor;
          int32_t rest = (int32_t)(x < 0 ? x - 0.5f : x + 0.5f);
          /* A tile of high digits, then one of middle and one of low digits. */
          int8_t *digits = (int8_t *)panel + at + i / DIGIT_STRIDE * DIGIT_STRIDE * width * 2;
          for (long digit = 2; digit >= 0; digit--) {
            digits[digit * DIGIT_STRIDE * width] = (int8_t)rest;
            rest = (rest - (int8_t)rest) >> 8;
          }
        }
      }
    }
  }
}

/* Pack weights (n, k) for `multiply_columns`, in blocks of `block` of the k numbers. `scale`, (n,),
 * is written for INT8 and INT8X3 only. */
void pack(int format, const float *w, long n, long k, long block, char *out, float *scale) {
  if (format == FLOAT32)
    pack_format(FLOAT32, w, n, k, block, out, scale);
  else if (format == BFLOAT16)
    pack_format(BFLOAT16, w, n, k, block, out, scale);
  else if (format == INT8)
    pack_format(INT8, w, n, k, block, out, scale);
  else
    pack_format(INT8X3, w, n, k, block, out, scale);
}

/* Pack rows `first` to `last`: row r is row index[r] of the table, or row r if `index` is NULL. */
void gather(int format, const float *table, const int64_t *index, long first, long last, long k,
            char *out, float *scale) {
  for (long r = first; r < last; r++) {
    const float *row = table + (index ? index[r] : r) * k;
    scale[r] = pack_row(format, row, k, out, r);
  }
}

/* The input's contribution to the gates: bfloat16 in low precision, else float32. */
INLINE void store_gates(int format, char *gates, long at, vec x) {
  if (is_low_precision(format))
    store_bfloat16((uint16_t *)gates + at, x);
  else
    store_floats((float *)gates + at, x);
}

INLINE vec load_gates(int format, const char *gates, long at) {
  return is_low_precision(format) ? load_bfloat16((const uint16_t *)gates + at)
                                  : load_floats((const float *)gates + at);
}

typedef struct {
  int64_t rows, k, n;          /* sizes of the product (rows, k) x (k, n) */
  int64_t first, last;         /* range of columns to compute, multiples of 64 */
  int64_t epilogue;
  const char *a;               /* rows packed by `gather` */
  const float *a_scale;
  const char *w;               /* weights packed by `pack` */
  const float *w_scale, *bias; /* (n,) */
  const float *x;              /* input of a highway layer, (rows, n / 2) */
  char *out;
  float *sums;                 /* scratch memory, (ROW_BLOCK, 96) */
} product_args;

/* What is computed from a product and its bias, and the shape of `out`. */
enum {
  NO_EPILOGUE, /* (rows, n) */
  GATES,       /* (n / 64, rows, 64), bfloat16 in low precision */
  HIGHWAY,     /* (rows, n / 2): 16 columns of the transform, then 16 of its gate, and so on */
};

/* Rows of a block that fits in the L2 cache; a multiple of the row blocks of all formats. */
#define ROW_BLOCK 240

/* Finish one vector of each of two adjacent tiles of columns of a row, and write the result. */
INLINE void apply_epilogue(int format, const product_args *p, long row, long column,
                           const float *sums, long digit_offset) {
  vec x[2];
  for (int tile = 0; tile < 2; tile++) {
    const long at = column + tile * TILE;
    x[tile] =
        dequantize(format, sums + tile * TILE, digit_offset, p->w_scale + at, p->a_scale[row]);
    x[tile] += load_floats(p->bias + at);
  }
  if (p->epilogue == HIGHWAY) {
    const long at = row * (p->n / 2) + column / (2 * TILE) * TILE + column % TILE;
    const vec input = load_floats(p->x + at);
    const vec transformed = blend(x[0] < splat(0), splat(0), x[0]); /* ReLU that preserves NaN */
    const vec gate = sigmoid(x[1], 0), change = transformed - input;
    /* Interpolate from the nearer end: a large value would cancel the digits of a small one. */
    const vec from_input = input + gate * change;
    const vec from_transformed = transformed - (splat(1) - gate) * change;
    store_floats((float *)p->out + at, blend(gate < splat(0.5f), from_input, from_transformed));
    return;
  }
  for (int tile = 0; tile < 2; tile++) {
    const long at = column + tile * TILE;
    if (p->epilogue == GATES)
      store_gates(format, p->out, (at / 64 * p->rows + row) * 64 + at % 64, x[tile]);
    else
      store_floats((float *)p->out + row * p->n + at, x[tile]);
  }
}

INLINE void run_product(int format, const product_args *p) {
  const long width = column_block(format), stride = width * sums_per_number(format);
  acquire_tiles(format);
  for (long first = 0; first < p->rows; first += ROW_BLOCK) {
    long rows = p->rows - first < ROW_BLOCK ? p->rows - first : ROW_BLOCK;
    const char *a = p->a + first * p->k * bytes_per_number(format);
    for (long column = p->first; column < p->last; column += width) {
      multiply_columns(format, a, p->k, rows, p->w, column, 0, p->sums, stride);
      for (long r = 0; r < rows; r++)
        for (long from = 0; from < width; from += 2 * TILE)
          for (long i = from; i < from + TILE; i += VECTOR)
            apply_epilogue(format, p, first + r, column + i, p->sums + r * stride + i, width);
    }
  }
  release_tiles(format);
}

typedef struct {
  int64_t words, length, n_distinct; /* words, characters per word, distinct characters */
  int64_t columns, n_widths;         /* columns of `out`, number of filter widths */
  const int64_t *shapes;             /* (n_widths, 2): width and number of filters */
  const int64_t *characters;         /* (words, length): row of the distinct character */
  /* For each filter width (filters / 64, width, n_distinct, 64): the contribution of each character
   * at each position of the filter. */
  const float *contributions;
  const float *bias;                 /* for each filter width (filters, padded to 64) */
  float *out;                        /* (words, columns) */
} convolution_args;

/* The number of windows before windows only repeat: a word is padded with copies of one character,
 * and repetitions do not change the maximum. */
INLINE long count_windows(const int64_t *word, long length, long width) {
  long used = length;
  while (used > 0 && word[used - 1] == word[length - 1]) used--;
  return used + width < length ? used + 1 : length - width + 1;
}

/* The output of a filter for a window is the sum of the contributions of its characters, which were
 * multiplied once per distinct character. Nothing is multiplied here, so float32 costs no more than
 * low precision. */
static void pool_filter_block(const convolution_args *args, long width, long filters,
                              const float *contributions, const float *bias, float *out) {
  enum { N = 64 / VECTOR };
  for (long word = 0; word < args->words; word++) {
    const int64_t *window = args->characters + word * args->length;
    const int64_t *end = window + count_windows(window, args->length, width);
    vec maxima[N];
    for (int v = 0; v < N; v++) maxima[v] = splat(-__builtin_inff());
    for (; window < end; window++) {
      vec x[N] = {{0}};
      for (long position = 0; position < width; position++) {
        const float *row = contributions + (position * args->n_distinct + window[position]) * 64;
        for (int v = 0; v < N; v++) x[v] += load_floats(row + v * VECTOR);
      }
      for (int v = 0; v < N; v++) /* NaN is preserved */
        maxima[v] = blend((x[v] > maxima[v]) | (x[v] != x[v]), x[v], maxima[v]);
    }
    for (int v = 0; v < N; v++) {
      const long remaining = filters - v * VECTOR;
      vec x = maxima[v] + load_floats(bias + v * VECTOR);
      if (remaining >= VECTOR)
        store_floats(out + v * VECTOR, x);
      else
        for (long i = 0; i < remaining; i++) out[v * VECTOR + i] = x[i];
    }
    out += args->columns;
  }
}

void convolve_and_pool(const convolution_args *args) {
  const float *contributions = args->contributions, *bias = args->bias;
  float *out = args->out;
  for (long i = 0; i < args->n_widths; i++) {
    const long width = args->shapes[2 * i], filters = args->shapes[2 * i + 1];
    for (long filter = 0; filter < filters; filter += 64) {
      pool_filter_block(args, width, filters - filter, contributions, bias, out + filter);
      contributions += 64 * width * args->n_distinct;
      bias += 64;
    }
    out += filters;
  }
}

typedef struct {
  /* Sizes: each time step is a row of `index` and `outputs` with `batch` entries. */
  int64_t cell, out, batch, first_step, last_step, reverse, rows, n_inputs;
  int64_t block; /* units that are projected together, a divisor of `cell` */
  /* Bounds, or 0 for none. */
  float cell_clip, projection_clip;
  const char *gates;      /* (cell / 16, n_inputs, 64): the inputs' share, by `product_*` */
  const int64_t *index;   /* (steps, batch): row of the input */
  const int64_t *active;  /* leading rows active at each step; the others keep their state */
  const char *recurrent;  /* packed (4 * cell, out), gates interleaved as in `gates` */
  const float *recurrent_scale;
  const char *projection; /* packed (out, cell) in blocks of units, or NULL without projection */
  float *cells;           /* (cell / 16, rows, 16), updated in place: see `reorder_cells` */
  float *h;               /* (rows, out), updated in place */
  float *outputs;         /* (steps, batch, out) */
  /* Scratch memory, for the number of rows rounded up to a multiple of 32. */
  char *state;            /* packed copy of h */
  float *state_scale;
  char *hidden;           /* packed outputs of one block of units */
  float *projection_sums; /* (out / column block, rows, column block) */
  float *gate_sums;       /* two buffers of (rows, 64), or (rows, 3 * 64) for INT8X3 */
} lstm_args;

INLINE long round_up_32(long rows) { return (rows + 31) / 32 * 32; }

/* The format in which units are projected. INT8 is not used: most units are far smaller than the
 * largest, and with one scale per row about half of them would become zero. */
INLINE int format_of_projection(int format) {
  return format == INT8X3 ? FLOAT32 : format != INT8 ? format : HAS_BFLOAT16 ? BFLOAT16 : FLOAT32;
}
int projection_format(int format) { return format_of_projection(format); }

/* Cells of 16 units whose gate products are available but which have not been computed yet. */
typedef struct {
  const lstm_args *args;
  const int64_t *index; /* index of the current step */
  const float *sums;    /* gate products, (rows, 64, or 3 * 64) */
  long unit, in_block;  /* first unit, and its position within its block */
  long row, last;       /* next row to compute, and number of rows */
  vec cell[TILE_VECTORS], output_gate[TILE_VECTORS]; /* of the previous row */
} pending_cells;

INLINE void queue_cells(pending_cells *p, long unit, const float *sums, long n) {
  p->sums = sums;
  p->unit = unit;
  p->in_block = unit % p->args->block; /* computed once per queue: a division is slow */
  p->row = 0;
  p->last = n;
}

/* Compute the output of units from cell and output gate, and store it for the projection. */
INLINE void store_outputs(int format, const pending_cells *p, long r, int part) {
  const lstm_args *args = p->args;
  const long i = part * VECTOR;
  vec out = p->output_gate[part] * tanh_vec(p->cell[part], is_low_precision(format));
  if (!args->projection) {
    store_floats(args->h + r * args->cell + p->unit + i, out);
    return;
  }
  store_packed(format_of_projection(format), args->hidden, r, p->in_block + i, args->block, out);
}

/* Compute the cells of the next row and the outputs of the previous row. Both in one pass give
 * out-of-order execution independent work: cell and output of one row form a long dependency
 * chain. */
INLINE void compute_next_row(int format, pending_cells *p) {
  const lstm_args *args = p->args;
  const int is_fast = is_low_precision(format);
  const long r = p->row, unit = p->unit;
  const long input = (unit / TILE * args->n_inputs + p->index[r]) * 64;
  /* Inputs are in random order: prefetch the gates of the next units. */
  const long size = is_low_precision(format) ? 2 : 4;
  const char *next = args->gates + (input + 64 * args->n_inputs) * size;
  for (long byte = 0; byte < 64 * size; byte += 64) __builtin_prefetch(next + byte, 0, 2);
  for (int part = 0; part < TILE_VECTORS; part++) {
    vec gate[4];
    for (int g = 0; g < 4; g++) {
      const long i = g * TILE + part * VECTOR;
      const float *scale = args->recurrent_scale + 4 * unit + i;
      gate[g] = dequantize(format, p->sums + i, 64, scale, args->state_scale[r]);
      gate[g] += load_gates(format, args->gates, input + i);
    }
    if (r > 0) store_outputs(format, p, r - 1, part);
    float *at = args->cells + unit * args->rows + r * TILE + part * VECTOR;
    vec cell = sigmoid(gate[1], is_fast) * load_floats(at);
    cell += sigmoid(gate[0], is_fast) * tanh_vec(gate[2], is_fast);
    if (args->cell_clip > 0) cell = clip(cell, args->cell_clip);
    store_floats(at, cell);
    p->cell[part] = cell;
    p->output_gate[part] = sigmoid(gate[3], is_fast);
  }
  p->sums += 64 * sums_per_number(format);
  p->row = r + 1;
}

INLINE void compute_remaining_rows(int format, pending_cells *p) {
  if (p->last == 0) return;
  while (p->row < p->last) compute_next_row(format, p);
  for (int part = 0; part < TILE_VECTORS; part++) store_outputs(format, p, p->last - 1, part);
}

#if HAS_AMX

/* Multiply the state with the recurrent weights of the gates of 16 units into (rows, 64). The AMX
 * unit works in parallel to the vector units, so the `pending` cells of the previous units are
 * computed between its products. */
INLINE void multiply_gates(int format, const lstm_args *args, long n, long unit, float *sums,
                           pending_cells *pending) {
  const long row_bytes = args->out * bytes_per_number(format), depth = row_bytes / 64;
  const long strip = depth * TILE_BYTES, step = tiles_per_step(format);
  const long stride = 64 * sums_per_number(format), tile_offset = format == INT8X3 ? 64 : 16;
  const char *weights = args->recurrent + 4 * unit * row_bytes;
  const char *next = weights + 4 * strip, *next_end = next + 4 * strip;
  const long products = 64 / tile_panel(format) * depth / step;
  const int rows_per_product = (int)((32 + products - 1) / products);
  for (long column = 0; column < 64; column += tile_panel(format)) {
    const char *w0 = weights + column / 16 * strip, *w1 = w0 + strip;
    for (long from = 0; from < depth; from += TILE_DEPTH_BLOCK * step) {
      const long to =
          depth - from < TILE_DEPTH_BLOCK * step ? depth : from + TILE_DEPTH_BLOCK * step;
      for (long r = 0; r < n; r += 32) {
        const char *a0 = args->state + r * row_bytes, *a1 = a0 + 16 * row_bytes;
        float *at = sums + r * stride + column;
        const int is_pair = n - r > 16;
        load_sums(format, from > 0, is_pair, at, stride, tile_offset);
        for (long i = from; i < to; i += step) {
          multiply(format, is_pair, a0 + TILE_BYTES * i, a1 + TILE_BYTES * i, w0 + TILE_BYTES * i,
                   w1 + TILE_BYTES * i);
          next = prefetch_tiles(format, next, next_end);
          for (int q = 0; q < rows_per_product; q++)
            if (pending->row < pending->last) compute_next_row(format, pending);
        }
        store_sums(format, is_pair, at, stride, tile_offset);
      }
    }
  }
  compute_remaining_rows(format, pending);
}
#endif

/* Project a block of units while their outputs are in the cache. */
INLINE void project_block(int format, const lstm_args *args, long n, long block) {
  const int projected = format_of_projection(format);
  const long width = column_block(projected);
  const char *weights = args->projection + block * args->out * bytes_per_number(projected);
  for (long column = 0; column < args->out; column += width)
    multiply_columns(projected, args->hidden, args->block, n, weights, column, block > 0,
                     args->projection_sums + column * round_up_32(args->rows), width);
}

/* Compute gates, cells and projection sums of the first n rows of a step. */
INLINE void run_step(int format, const lstm_args *args, const int64_t *index, long n) {
  pending_cells pending = {.args = args, .index = index};
#if HAS_AMX
  if (format != FLOAT32) {
    float *sums[2] = {args->gate_sums,
                      args->gate_sums + round_up_32(n) * 64 * sums_per_number(format)};
    int buffer = 0;
    for (long unit = 0; unit < args->cell; unit += TILE, buffer = !buffer) {
      multiply_gates(format, args, n, unit, sums[buffer], &pending);
      /* All cells of the previous block have been computed, none of the current one. */
      if (args->projection && unit > 0 && unit % args->block == 0)
        project_block(format, args, n, unit - args->block);
      queue_cells(&pending, unit, sums[buffer], n);
    }
    compute_remaining_rows(format, &pending);
    if (args->projection) project_block(format, args, n, args->cell - args->block);
    return;
  }
#endif
  for (long unit = 0; unit < args->cell; unit += TILE) {
    multiply_columns(format, args->state, args->out, n, args->recurrent, 4 * unit, 0,
                     args->gate_sums, 64);
    queue_cells(&pending, unit, args->gate_sums, n);
    compute_remaining_rows(format, &pending);
    const long end = unit + TILE;
    if (args->projection && end % args->block == 0)
      project_block(format, args, n, end - args->block);
  }
}

/* Clip the sums of the projection over all blocks and store them as the new h. */
INLINE void store_projection(int format, const lstm_args *args, long n) {
  const long width = column_block(format_of_projection(format));
  for (long v = 0; v < args->out; v += VECTOR) {
    const float *sums =
        args->projection_sums + v / width * width * round_up_32(args->rows) + v % width;
    for (long r = 0; r < n; r++) {
      vec x = load_floats(sums + r * width);
      if (args->projection_clip > 0) x = clip(x, args->projection_clip);
      store_floats(args->h + r * args->out + v, x);
    }
  }
}

/* Copy cells from c, (rows, cell), to `blocks`, (cell / 16, rows, 16), or back if `is_reverse`. */
void reorder_cells(float *c, float *blocks, long rows, long cell, int is_reverse) {
  for (long unit = 0; unit < cell; unit += TILE)
    for (long r = 0; r < rows; r++) {
      float *row = c + r * cell + unit, *block = blocks + unit * rows + r * TILE;
      memcpy(is_reverse ? row : block, is_reverse ? block : row, 4 * TILE);
    }
}

INLINE void run_steps(int format, const lstm_args *args) {
  const long n_steps = args->last_step - args->first_step;
  acquire_tiles(format);
  long n_packed = 0; /* rows whose state has been packed */
  for (long s = 0; s < n_steps; s++) {
    long step = args->reverse ? args->last_step - 1 - s : args->first_step + s;
    long n = args->active[step];
    for (long r = n_packed; r < n; r++) /* rows that begin at this step */
      args->state_scale[r] = pack_row(format, args->h + r * args->out, args->out, args->state, r);
    n_packed = n > n_packed ? n : n_packed;
    run_step(format, args, args->index + step * args->batch, n);
    if (args->projection) store_projection(format, args, n);
    for (long r = 0; r < n; r++) {
      const float *h = args->h + r * args->out;
      memcpy(args->outputs + (step * args->batch + r) * args->out, h, 4 * args->out);
      args->state_scale[r] = pack_row(format, h, args->out, args->state, r);
    }
  }
  release_tiles(format);
}

/* ------------------------------------------------------------------ recurrent training steps */

/* Elementwise part of one step of a recurrent layer: everything but its matrix products. Each array
 * is a block of n numbers, (hidden, batch); gates are consecutive blocks. Unlike above, n can be any
 * number: functions with the argument m compute one vector, of which m numbers are in the block. */

INLINE vec load_some(const float *at, long m) {
  if (m == VECTOR) return load_floats(at);
  vec x = {0};
  memcpy(&x, at, 4 * m);
  return x;
}

INLINE void store_some(float *at, vec x, long m) {
  if (m == VECTOR)
    store_floats(at, x);
  else
    memcpy(at, &x, 4 * m);
}

/* Run a statement for all vectors, with their position k and size m. The size is a constant in the
 * loop, so that it contains no branches. */
#define FOR_EACH_VECTOR(n, statement)                  \
  do {                                                 \
    long k = 0;                                        \
    for (const long m = VECTOR; k + m <= n; k += m) {  \
      statement;                                       \
    }                                                  \
    const long m = n - k;                              \
    if (m > 0) {                                       \
      statement;                                       \
    }                                                  \
  } while (0)

/* The derivatives of sigmoid and tanh, given their values. */
INLINE vec sigmoid_slope(vec y) { return y * (splat(1.0f) - y); }
INLINE vec tanh_slope(vec y) { return splat(1.0f) - y * y; }

void rnn_tanh_step(long n, float *h) {
  FOR_EACH_VECTOR(n, store_some(h + k, tanh_vec(load_some(h + k, m), 0), m));
}

INLINE void lstm_vector(long m, long n, float *gates, const float *c, float *new_c, float *tanh_c,
                        float *out) {
  const vec i = sigmoid(load_some(gates, m), 0), f = sigmoid(load_some(gates + n, m), 0);
  const vec g = tanh_vec(load_some(gates + 2 * n, m), 0);
  const vec o = sigmoid(load_some(gates + 3 * n, m), 0);
  const vec cell = f * load_some(c, m) + i * g, tanh_cell = tanh_vec(cell, 0);
  store_some(gates, i, m);
  store_some(gates + n, f, m);
  store_some(gates + 2 * n, g, m);
  store_some(gates + 3 * n, o, m);
  store_some(new_c, cell, m);
  store_some(tanh_c, tanh_cell, m);
  store_some(out, o * tanh_cell, m);
}

/* Gates i, f, g, o. `tanh_c` may be the block of i, and `new_c` may be `c`. */
void lstm_step(long n, float *gates, const float *c, float *new_c, float *tanh_c, float *out) {
  FOR_EACH_VECTOR(n, lstm_vector(m, n, gates + k, c + k, new_c + k, tanh_c + k, out + k));
}

INLINE void lstm_vector_backward(long m, long n, const float *gates, const float *c,
                                 const float *tanh_c, const float *d_out, float *d_c,
                                 float *d_gates) {
  const vec i = load_some(gates, m), f = load_some(gates + n, m);
  const vec g = load_some(gates + 2 * n, m), o = load_some(gates + 3 * n, m);
  const vec t = load_some(tanh_c, m), d_o = load_some(d_out, m);
  const vec d_cell = load_some(d_c, m) + d_o * o * tanh_slope(t);
  store_some(d_gates, d_cell * g * sigmoid_slope(i), m);
  store_some(d_gates + n, d_cell * load_some(c, m) * sigmoid_slope(f), m);
  store_some(d_gates + 2 * n, d_cell * i * tanh_slope(g), m);
  store_some(d_gates + 3 * n, d_o * t * sigmoid_slope(o), m);
  store_some(d_c, d_cell * f, m);
}

/* `d_c` is the gradient of the new cell and becomes that of the previous one. */
void lstm_step_backward(long n, const float *gates, const float *c, const float *tanh_c,
                        const float *d_out, float *d_c, float *d_gates) {
  FOR_EACH_VECTOR(n, lstm_vector_backward(m, n, gates + k, c + k, tanh_c + k, d_out + k, d_c + k,
                                          d_gates + k));
}

INLINE void gru_vector(long m, long n, float *gates, const float *h, float *new_h) {
  const vec r = sigmoid(load_some(gates + n, m), 0), z = sigmoid(load_some(gates + 2 * n, m), 0);
  const vec y = tanh_vec(load_some(gates, m) + r * load_some(gates + 3 * n, m), 0);
  store_some(gates, y, m);
  store_some(gates + n, r, m);
  store_some(gates + 2 * n, z, m);
  store_some(new_h, y + z * (load_some(h, m) - y), m);
}

/* Gates: candidate, reset, update, and the recurrent part of the candidate. */
void gru_step(long n, float *gates, const float *h, float *new_h) {
  FOR_EACH_VECTOR(n, gru_vector(m, n, gates + k, h + k, new_h + k));
}

INLINE void gru_vector_backward(long m, long n, const float *gates, const float *h,
                                const float *d_new_h, float *d_h, float *d_gates) {
  const vec y = load_some(gates, m), r = load_some(gates + n, m);
  const vec z = load_some(gates + 2 * n, m), u = load_some(gates + 3 * n, m);
  const vec d = load_some(d_new_h, m), d_y = d * (splat(1.0f) - z) * tanh_slope(y);
  store_some(d_gates, d_y, m);
  store_some(d_gates + n, d_y * u * sigmoid_slope(r), m);
  store_some(d_gates + 2 * n, d * (load_some(h, m) - y) * sigmoid_slope(z), m);
  store_some(d_gates + 3 * n, d_y * r, m);
  store_some(d_h, load_some(d_h, m) + d * z, m);
}

/* The gradient through the update gate is added to `d_h`. */
void gru_step_backward(long n, const float *gates, const float *h, const float *d_new_h, float *d_h,
                       float *d_gates) {
  FOR_EACH_VECTOR(n, gru_vector_backward(m, n, gates + k, h + k, d_new_h + k, d_h + k,
                                         d_gates + k));
}

/* Compared with the structures in Python when the library is loaded. */
#define ABI_VERSION 2
typedef struct {
  int64_t abi_version, product_args_size, convolution_args_size, lstm_args_size;
} library_info;
void get_library_info(library_info *info) {
  *info = (library_info){ABI_VERSION, sizeof(product_args), sizeof(convolution_args),
                         sizeof(lstm_args)};
}

void product_float32(const product_args *args) { run_product(FLOAT32, args); }
void lstm_float32(const lstm_args *args) { run_steps(FLOAT32, args); }

#if HAS_INT8
void product_int8(const product_args *args) { run_product(INT8, args); }
void lstm_int8(const lstm_args *args) { run_steps(INT8, args); }
#endif

#if HAS_BFLOAT16
void product_bfloat16(const product_args *args) { run_product(BFLOAT16, args); }
void lstm_bfloat16(const lstm_args *args) { run_steps(BFLOAT16, args); }
#endif

#if HAS_AMX
void product_int8x3(const product_args *args) { run_product(INT8X3, args); }
void lstm_int8x3(const lstm_args *args) { run_steps(INT8X3, args); }
#endif

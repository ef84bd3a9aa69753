/* ELMo's products on a CPU, with what comes after them done before it leaves the first caches.
 *
 * Weights are packed once, in the order they are read. A product walks over panels of columns: the
 * weights of a panel stay in the first cache while all rows go past, and what a panel gives is
 * finished (a cell, a clip) before the next one is begun. There are no threads in here: a call is
 * one direction of some rows, and calls run side by side.
 *
 * Three arithmetics: float32 with the vectors of any CPU, bfloat16 and int8 with the tile units of
 * newer Xeons (AMX) or with dot products of pairs and fours (AVX512-BF16; AVX512-VNNI, ARM's). Sums
 * and cells are float32 in all of them, int8's products exact in int32. Of int8 a row has one scale:
 * that of a weight is fixed, that of an input found when it is made.
 *
 * Tiles multiply float32 too, and faster than vectors do (INT8X3): as whole numbers of 24 bits, three
 * int8 each, of whose nine products the six that matter are summed, exactly. What is left out is less
 * than what float32's own sums round away, unless a row has numbers that are thousands of times as
 * large as those that count.
 */
#include <stdint.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#ifdef __AVX512F__
#include <immintrin.h>
#endif
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define HAS_BYTES 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define HAS_BYTES 1
#else
#define HAS_BYTES 0
#endif
#if HAS_BYTES && defined(__AVX512BF16__)
#define HAS_HALVES 1
#else
#define HAS_HALVES 0
#endif
#if HAS_HALVES && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
#define HAS_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HAS_TILES 0
#endif
/* What is added to int8's rows where that side of a product is without a sign, and taken off the
 * sums: see `dots_by_panel`. */
#if defined(__AVX512VNNI__) && !HAS_TILES
#define EXTRA 128
#else
#define EXTRA 0
#endif

#define INLINE static inline __attribute__((always_inline))

enum { FLOAT32, BFLOAT16, INT8, INT8X3 };

/* Sixteen numbers: a row of a tile, the units of a cell that lie together. */
#define LANES 16

/* Numbers of a vector, which is as wide as the CPU's own: compilers keep wider ones in memory. */
#if defined(__AVX512F__)
#define WIDE 16
#elif defined(__AVX__)
#define WIDE 8
#else
#define WIDE 4
#endif
#define PARTS (LANES / WIDE)
typedef float vec __attribute__((vector_size(4 * WIDE)));
typedef float loose __attribute__((vector_size(4 * WIDE), aligned(4)));
typedef int32_t ints __attribute__((vector_size(4 * WIDE)));
typedef uint16_t halves __attribute__((vector_size(2 * WIDE), aligned(2)));
typedef int8_t bytes __attribute__((vector_size(WIDE), aligned(1)));

/* ------------------------------------------------------------------ vectors */

INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec read_floats(const float *at) { return *(const loose *)at; }
INLINE void write_floats(float *at, vec x) { *(loose *)at = x; }

INLINE vec choose(ints which, vec yes, vec no) {
  return (vec)((which & (ints)yes) | (~which & (ints)no));
}

/* What is no number stays none. */
INLINE vec clip(vec x, float bound) {
#ifdef __AVX512F__
  __m512 high = _mm512_set1_ps(bound), low = _mm512_set1_ps(-bound);
  return (vec)_mm512_min_ps(high, _mm512_max_ps(low, (__m512)x));
#else
  x = choose(x > all(bound), all(bound), x);
  return choose(x < all(-bound), all(-bound), x);
#endif
}

/* 1.5 * 2^23: adding it rounds, and leaves the integer in the last bits. */
#define ROUNDING 12582912.0f

/* 1 / (1 + 2^x) to seven digits; both functions of a cell are this one with other factors. */
INLINE vec falling(vec x) {
  const vec magic = all(ROUNDING);
  x = clip(x, 120.0f);
  vec shifted = x + magic;
  vec r = x - (shifted - magic);
  vec p = r * all(1.5403530e-4f) + all(1.3333558e-3f);
  p = p * r + all(9.6181291e-3f);
  p = p * r + all(5.5504109e-2f);
  p = p * r + all(0.24022651f);
  p = p * r + all(0.69314718f);
  p = p * r + all(1.0f);
  vec d = all(1.0f) + (vec)((ints)p + ((ints)shifted << 23));
#ifdef __AVX512F__
  vec y = (vec)_mm512_rcp14_ps((__m512)d); /* a step of Newton's is quicker than a division */
  return y * (all(2.0f) - d * y);
#else
  return all(1.0f) / d;
#endif
}

/* The same to four digits, which is more than the products of a narrow arithmetic have. */
INLINE vec falling_roughly(vec x) {
#ifdef __AVX512DQ__
  vec r = (vec)_mm512_reduce_ps((__m512)x, 1); /* what is over the next whole number below */
  vec p = r * all(0.07802452f) + all(0.22606716f);
  p = p * r + all(0.69583354f);
  p = p * r + all(0.99992522f);
  p = (vec)_mm512_scalef_ps((__m512)p, (__m512)x);
  return (vec)_mm512_rcp14_ps((__m512)(all(1.0f) + p));
#else
  return falling(x);
#endif
}

INLINE vec sigmoid(vec x, int is_rough) {
  x *= all(-1.44269504f);
  return is_rough ? falling_roughly(x) : falling(x);
}

INLINE vec tanh_of(vec x, int is_rough) {
  x *= all(2.88539008f);
  return all(1.0f) - all(2.0f) * (is_rough ? falling_roughly(x) : falling(x));
}

INLINE vec read_halves(const uint16_t *at) {
  ints wide = __builtin_convertvector(*(const halves *)at, ints);
  return (vec)(wide << 16);
}

INLINE void write_halves(uint16_t *at, vec x) {
#if HAS_HALVES
  *(halves *)at = (halves)_mm512_cvtneps_pbh((__m512)x);
#else
  ints bits = (ints)x, odd = (bits >> 16) & 1;
  ints rounded = (bits + odd + 0x7fff) >> 16;
  ints none = x != x; /* what is no number stays none */
  *(halves *)at = __builtin_convertvector((rounded & ~none) | (none & 0x7fc0), halves);
#endif
}

/* Of numbers between -127 and 127. */
INLINE void write_bytes(int8_t *at, vec x) {
  const vec magic = all(ROUNDING);
  ints whole = (ints)(x + magic) - (ints)magic;
  *(bytes *)at = __builtin_convertvector(whole + EXTRA, bytes);
}

INLINE float largest(const float *row, long n) {
  vec most = {0};
  for (long i = 0; i < n; i += WIDE) {
    vec x = (vec)((ints)read_floats(row + i) & 0x7fffffff);
    most = choose((x > most) | (x != x), x, most); /* what is no number stays none */
  }
  float found = 0;
  for (int i = 0; i < WIDE; i++)
    found = most[i] > found || most[i] != most[i] ? most[i] : found;
  return found;
}

/* ------------------------------------------------------------------ products */

/* Rows that are multiplied together, and columns: four vectors beside each other where there are 32
 * registers, two of AVX's where there are 16. A core that is shared takes in fewer instructions at a
 * time, and six rows by four vectors need the fewest that are no products. */
#define ROWS 6
#ifdef __AVX512F__
#define PANEL 64
#else
#define PANEL 16
#endif
#define DEPTH 512

/* Weights come too late from the last cache for those who wait until they need them. So the next
 * panel is asked for while one is multiplied: of each four numbers of a row, for so many lines of it
 * that all are on their way when all rows went past. Where rows are so few that weights are all that
 * takes time, those AHEAD in this panel are asked for instead. */
#define LINES (PANEL / LANES) /* of a panel, for each number of a row */
#define AHEAD 12
enum { FEW = 0 };
INLINE int lines_asked(long n) { return n < 4 * ROWS ? FEW : n < 4 * LINES * ROWS ? LINES : 1; }

/* Bytes of a number. */
INLINE long size_of(int kind) {
  return kind == BFLOAT16 ? 2 : kind == INT8 ? 1 : kind == INT8X3 ? 3 : 4;
}

/* Of numbers as three bytes 64 first ones stand before the second and the third. */
#define APART 64

/* What the largest number of a row becomes: a byte, or three with room to be rounded up. */
INLINE float most_of(int kind) { return kind == INT8X3 ? 0x7f7f00 : 127; }

/* Whether rows and weights have a scale. */
INLINE int has_scale(int kind) { return kind == INT8 || kind == INT8X3; }

/* Sums that a product leaves for a number. */
INLINE long sums_of(int kind) { return kind == INT8X3 ? 3 : 1; }

/* Whether gates may be rounded and cells be rough: products have no more digits. */
INLINE int is_narrow(int kind) { return kind == BFLOAT16 || kind == INT8; }

/* Where a byte of a row lies among rows that are to be multiplied: in a tile, 64 bytes of each of the
 * rows that are multiplied together. Rows a power of two apart would push each other out of the
 * caches. */
INLINE char *spot(int kind, char *rows, long row, long byte, long row_bytes) {
  const long high = kind == FLOAT32 || !HAS_TILES ? ROWS : 16;
  return rows + (row / high * row_bytes + byte / 64 * 64) * high + row % high * 64 + byte % 64;
}

/* On ARM a product takes its factor as it was read: spread over a vector first, it would keep the
 * units busy that multiply. Volatile keeps the order: compilers would read so far ahead that sums
 * leave their registers. */
INLINE vec plus_product(vec sum, float x, vec w) {
#ifdef __aarch64__
  __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(w), "w"(x));
  return sum;
#else
  return sum + all(x) * w;
#endif
}

/* Vectors of a panel. */
#define VECTORS (PANEL / WIDE)

/* Some rows (n, k) times a packed panel: (n, PANEL), added to what is there where `is_more`; the
 * `next` panel is asked for. */
INLINE void few_rows(int n, int asked, const float *a, const float *w, const char *next, long k,
                     int is_more, float *out, long out_stride) {
  vec sums[ROWS][VECTORS];
  for (int r = 0; r < n; r++)
    for (int v = 0; v < VECTORS; v++)
      sums[r][v] = is_more ? read_floats(out + r * out_stride + v * WIDE) : (vec){0};
  for (long tile = 0; tile < k; tile += LANES, a += (ROWS - 1) * LANES)
    for (long four = 0; four < LANES; four += 4, a += 4, w += 4 * PANEL, next += 64 * asked) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        vec b[VECTORS];
        for (int v = 0; v < VECTORS; v++) b[v] = *(const vec *)(w + i * PANEL + v * WIDE);
        if (asked == FEW)
          for (int line = 0; line < LINES; line++)
            __builtin_prefetch(w + (AHEAD + i) * PANEL + line * LANES, 0, 3);
        else if (i < asked)
          __builtin_prefetch(next + 64 * i, 0, 2);
        for (int r = 0; r < n; r++) {
          const float x = a[r * LANES + i];
          for (int v = 0; v < VECTORS; v++) sums[r][v] = plus_product(sums[r][v], x, b[v]);
        }
      }
    }
  for (int r = 0; r < n; r++)
    for (int v = 0; v < VECTORS; v++)
      write_floats(out + r * out_stride + v * WIDE, sums[r][v]);
}

/* How many of the rows that are left are multiplied next. */
INLINE long taken(long left) { return left >= ROWS ? ROWS : left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* Where the next rows lie among `width` numbers of each. */
INLINE long beginning(long row, long width) {
  return row / ROWS * ROWS * width + row % ROWS * LANES;
}

INLINE void some_rows(long n, int asked, const float *a, const float *w, const char *next, long k,
                      int is_more, float *out, long out_stride) {
  if (n == ROWS)
    few_rows(ROWS, asked, a, w, next, k, is_more, out, out_stride);
  else if (n == 4)
    few_rows(4, asked, a, w, next, k, is_more, out, out_stride);
  else if (n == 2)
    few_rows(2, asked, a, w, next, k, is_more, out, out_stride);
  else
    few_rows(1, asked, a, w, next, k, is_more, out, out_stride);
}

/* Rows times a packed panel. Of long rows DEPTH numbers are multiplied at a time, so that their
 * weights stay in the second cache while all rows go past. */
static __attribute__((noinline)) void floats_by_panel(const float *a, long k, long n,
                                                      const float *w, int is_more, float *out,
                                                      long out_stride) {
  const int asked = lines_asked(n);
  const char *next = (const char *)(w + k * PANEL), *past = next + 4 * k * PANEL;
  for (long from = 0; from < k; from += DEPTH, a += DEPTH * ROWS, w += DEPTH * PANEL, is_more = 1) {
    const long depth = k - from < DEPTH ? k - from : DEPTH;
    for (long r = 0, rows; r < n; r += rows, next += 16 * depth * asked) {
      const float *first = a + beginning(r, k);
      float *to = out + r * out_stride;
      const char *soon = next < past ? next : (const char *)w;
      rows = taken(n - r);
      if (asked == 1)
        some_rows(rows, 1, first, w, soon, depth, is_more, to, out_stride);
      else if (asked == LINES)
        some_rows(rows, LINES, first, w, soon, depth, is_more, to, out_stride);
      else
        some_rows(rows, FEW, first, w, soon, depth, is_more, to, out_stride);
    }
  }
}

#if HAS_TILES

/* A tile has 16 rows of 64 bytes; a panel is two tiles of columns, 1,024 bytes for each 64 of a
 * row's. Rows are there up to a multiple of 16. */
#define TILE_BYTES 1024
#define DEEP 8

typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tiles;

static void set_tiles(void) {
  tiles shape;
  memset(&shape, 0, sizeof shape);
  shape.palette = 1;
  for (int tile = 0; tile < 8; tile++) shape.rows[tile] = 16, shape.row_bytes[tile] = 64;
  _tile_loadconfig(&shape);
}

#define MULTIPLY(sum, a, b)                 \
  do {                                      \
    if (kind == INT8)                       \
      _tile_dpbssd(sum, a, b);              \
    else                                    \
      _tile_dpbf16ps(sum, a, b);            \
  } while (0)

/* Tiles of a row that are multiplied at a time: all bytes of numbers together. */
INLINE long tiles_each(int kind) { return kind == INT8X3 ? 3 : 1; }

/* Columns of a panel: two tiles; one, of which there are three sums. */
INLINE long panel_of(int kind) { return kind == INT8X3 ? 16 : 32; }

#define MULTIPLY_NEXT(sum, a) \
  do {                        \
    _tile_loadd(6, a, 64);    \
    _tile_dpbssd(sum, 6, 7);  \
  } while (0)

/* Numbers of three bytes, 16 rows or 32 of them, times a tile of columns. The sums 0 and 2 are those
 * of first bytes times first ones, 1 and 3 of first times second, 4 and 5 of first times third and of
 * second times second; from each product to the next one tile changes. */
INLINE void multiply_threes(int is_double, const char *a0, const char *a1, const char *w) {
  enum { SECOND = TILE_BYTES, THIRD = 2 * TILE_BYTES };
  _tile_loadd(7, w, 64);
  MULTIPLY_NEXT(0, a0);
  MULTIPLY_NEXT(1, a0 + SECOND);
  MULTIPLY_NEXT(4, a0 + THIRD);
  if (is_double) {
    MULTIPLY_NEXT(5, a1 + THIRD);
    MULTIPLY_NEXT(3, a1 + SECOND);
    MULTIPLY_NEXT(2, a1);
  }
  _tile_loadd(7, w + SECOND, 64);
  if (is_double) {
    _tile_dpbssd(3, 6, 7);
    MULTIPLY_NEXT(5, a1 + SECOND);
  }
  MULTIPLY_NEXT(4, a0 + SECOND);
  MULTIPLY_NEXT(1, a0);
  _tile_loadd(7, w + THIRD, 64);
  _tile_dpbssd(4, 6, 7);
  if (is_double) MULTIPLY_NEXT(5, a1);
}

/* A tile of 16 rows, or two of 32, times a panel, added to the sums. */
INLINE void multiply(int kind, int is_double, const char *a0, const char *a1, const char *w0,
                     const char *w1) {
  if (kind == INT8X3) {
    multiply_threes(is_double, a0, a1, w0);
    return;
  }
  _tile_loadd(4, a0, 64);
  _tile_loadd(6, w0, 64);
  MULTIPLY(0, 4, 6);
  _tile_loadd(7, w1, 64);
  MULTIPLY(1, 4, 7);
  if (is_double) {
    _tile_loadd(5, a1, 64);
    MULTIPLY(2, 5, 6);
    MULTIPLY(3, 5, 7);
  }
}

/* Begin sums with nothing, or with what is there: `beside` each other. */
INLINE void begin_sums(int kind, int is_more, int is_double, const float *at, long stride,
                       long beside) {
  const float *below = at + 16 * stride;
  if (!is_more) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (kind == INT8X3) {
      _tile_zero(4);
      _tile_zero(5);
    }
    return;
  }
  _tile_loadd(0, at, 4 * stride);
  _tile_loadd(1, at + beside, 4 * stride);
  if (kind == INT8X3) _tile_loadd(4, at + 2 * beside, 4 * stride);
  if (is_double) {
    _tile_loadd(2, below, 4 * stride);
    _tile_loadd(3, below + beside, 4 * stride);
    if (kind == INT8X3) _tile_loadd(5, below + 2 * beside, 4 * stride);
  }
}

INLINE void end_sums(int kind, int is_double, float *at, long stride, long beside) {
  float *below = at + 16 * stride;
  _tile_stored(0, at, 4 * stride);
  _tile_stored(1, at + beside, 4 * stride);
  if (kind == INT8X3) _tile_stored(4, at + 2 * beside, 4 * stride);
  if (is_double) {
    _tile_stored(2, below, 4 * stride);
    _tile_stored(3, below + beside, 4 * stride);
    if (kind == INT8X3) _tile_stored(5, below + 2 * beside, 4 * stride);
  }
}

/* Ask for half of as many tiles of weights as are multiplied, which are needed soon; see
 * `few_rows`. */
INLINE const char *fetched(int kind, const char *soon, const char *past) {
  const long size = tiles_each(kind) * TILE_BYTES / 2;
  if (soon >= past) return soon;
  for (long byte = 0; byte < size; byte += 64) __builtin_prefetch(soon + byte, 0, 2);
  return soon + size;
}

/* Rows, `depth` tiles deep, times a panel; float or int32 sums. Weights of some tiles stay in the
 * first cache while all rows go past. */
INLINE void tiles_by_panel(int kind, const char *a, long depth, long n, const char *w, int is_more,
                           float *out, long out_stride) {
  const long below = depth * TILE_BYTES, each = tiles_each(kind);
  const long beside = kind == INT8X3 ? out_stride / 3 : 16;
  const char *soon = w + panel_of(kind) / 16 * below, *past = soon + panel_of(kind) / 16 * below;
  for (long from = 0; from < depth; from += DEEP * each, is_more = 1) {
    const long to = depth - from < DEEP * each ? depth : from + DEEP * each;
    for (long r = 0; r < n; r += 32) {
      const char *a0 = a + r / 16 * below, *w0 = w, *w1 = w + below;
      float *at = out + r * out_stride;
      const int is_double = n - r > 16;
      begin_sums(kind, is_more, is_double, at, out_stride, beside);
      for (long i = from; i < to; i += each) {
        multiply(kind, is_double, a0 + TILE_BYTES * i, a0 + below + TILE_BYTES * i,
                 w0 + TILE_BYTES * i, w1 + TILE_BYTES * i);
        soon = fetched(kind, soon, past);
      }
      end_sums(kind, is_double, at, out_stride, beside);
    }
  }
}
#endif

#if HAS_BYTES && !HAS_TILES

/* Two bfloat16 or four int8, in the registers that products read them from. */
#ifdef __aarch64__
typedef float factors;
#else
typedef int32_t factors;
#endif

/* Add their products; see `plus_product`. */
INLINE ints plus_dots(int kind, ints sums, factors x, ints w) {
#ifdef __aarch64__
  (void)kind;
  __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(w), "w"(x));
  return sums;
#else
  const __m512i all_x = _mm512_set1_epi32(x);
#if HAS_HALVES
  if (kind == BFLOAT16)
    return (ints)_mm512_dpbf16_ps((__m512)sums, (__m512bh)all_x, (__m512bh)w);
#endif
  (void)kind;
  return (ints)_mm512_dpbusd_epi32((__m512i)sums, all_x, (__m512i)w);
#endif
}

/* Where a vector of a panel begins among tiles of sixteen columns, `beside` bytes apart. */
INLINE const char *vector_at(const char *w, int v, long beside) {
  return w + v * WIDE / LANES * beside + v * WIDE % LANES * 4;
}

/* Some rows times a panel, four bytes of a row at a time; `extra` is what EXTRA comes to. */
INLINE void few_dots(int kind, int n, int asked, const char *a, long depth, const char *w,
                     const char *next, const ints *extra, int is_more, float *out,
                     long out_stride) {
  const long beside = depth * 1024;
  ints sums[ROWS][VECTORS];
  for (int r = 0; r < n; r++)
    for (int v = 0; v < VECTORS; v++) {
      vec there = is_more ? read_floats(out + r * out_stride + v * WIDE) : (vec){0};
      sums[r][v] = (ints)there - extra[v];
    }
  for (long tile = 0; tile < depth; tile++, a += (ROWS - 1) * 64)
    for (long four = 0; four < LANES; four += 4, a += 16, w += 256, next += 64 * asked)
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) {
        ints b[VECTORS];
        for (int v = 0; v < VECTORS; v++)
          b[v] = *(const ints *)vector_at(w + 64 * i, v, beside);
        if (asked == FEW)
          for (int line = 0; line < LINES; line++)
            __builtin_prefetch(w + line * beside + 64 * (AHEAD + i), 0, 3);
        else if (i < asked)
          __builtin_prefetch(next + 64 * i, 0, 2);
        for (int r = 0; r < n; r++) {
          factors x;
          memcpy(&x, a + 64 * r + 4 * i, 4);
          for (int v = 0; v < VECTORS; v++) sums[r][v] = plus_dots(kind, sums[r][v], x, b[v]);
        }
      }
  for (int r = 0; r < n; r++)
    for (int v = 0; v < VECTORS; v++)
      write_floats(out + r * out_stride + v * WIDE, (vec)sums[r][v]);
}

INLINE void some_dots(int kind, long n, int asked, const char *a, long depth, const char *w,
                      const char *next, const ints *extra, int is_more, float *out,
                      long out_stride) {
  if (n == ROWS)
    few_dots(kind, ROWS, asked, a, depth, w, next, extra, is_more, out, out_stride);
  else if (n == 4)
    few_dots(kind, 4, asked, a, depth, w, next, extra, is_more, out, out_stride);
  else if (n == 2)
    few_dots(kind, 2, asked, a, depth, w, next, extra, is_more, out, out_stride);
  else
    few_dots(kind, 1, asked, a, depth, w, next, extra, is_more, out, out_stride);
}

INLINE void dots_by_panel(int kind, const char *a, long depth, long n, const char *w, int is_more,
                          float *out, long out_stride) {
  const int asked = lines_asked(n);
  const char *next = w + LINES * depth * 1024, *past = next + LINES * depth * 1024;
  ints extra[VECTORS] = {{0}};
#if EXTRA
  if (kind == INT8) {
    const factors four = (factors)(EXTRA * 0x01010101u);
    for (int v = 0; v < VECTORS; v++)
      for (long i = 0; i < 16 * depth; i++) {
        const char *at = vector_at(w + 64 * i, v, depth * 1024);
        extra[v] = plus_dots(INT8, extra[v], four, *(const ints *)at);
      }
  }
#endif
  for (long r = 0, rows; r < n; r += rows, next += 256 * depth * asked) {
    const char *first = a + 4 * beginning(r, 16 * depth);
    float *to = out + r * out_stride;
    const char *soon = next < past ? next : w;
    rows = taken(n - r);
    if (asked == 1)
      some_dots(kind, rows, 1, first, depth, w, soon, extra, is_more, to, out_stride);
    else if (asked == LINES)
      some_dots(kind, rows, LINES, first, depth, w, soon, extra, is_more, to, out_stride);
    else
      some_dots(kind, rows, FEW, first, depth, w, soon, extra, is_more, to, out_stride);
  }
}

/* Once for all who call it: it is long. */
static __attribute__((noinline)) void tiles_by_panel(int kind, const char *a, long depth, long n,
                                                     const char *w, int is_more, float *out,
                                                     long out_stride) {
#if HAS_HALVES
  if (kind == BFLOAT16) {
    dots_by_panel(BFLOAT16, a, depth, n, w, is_more, out, out_stride);
    return;
  }
#endif
  (void)kind;
  dots_by_panel(INT8, a, depth, n, w, is_more, out, out_stride);
}
#endif

/* Columns that are multiplied together. */
INLINE long width_of(int kind) { return HAS_TILES && kind != FLOAT32 ? 32 : 64; }

/* Rows times so many columns of packed weights, (n, width), added to what is there where `is_more`;
 * int8's are numbers that wait for their scale, INT8X3's three times as many, a width apart. Rows lie
 * as `spot` says. */
INLINE void by_columns(int kind, const char *a, long k, long n, const char *w, long column,
                       int is_more, float *out, long out_stride) {
  const long size = size_of(kind);
  const char *from = w + column * k * size;
#if HAS_BYTES
  if (kind != FLOAT32) {
#if HAS_TILES
    const long width = panel_of(kind);
#else
    const long width = PANEL;
#endif
    for (long first = 0; first < width_of(kind); first += width)
      tiles_by_panel(kind, a, k * size / 64, n, from + first * k * size, is_more, out + first,
                     out_stride);
    return;
  }
#endif
  for (int first = 0; first < 64; first += PANEL)
    floats_by_panel((const float *)a, k, n, (const float *)from + first * k, is_more, out + first,
                    out_stride);
}

/* Tiles are taken for the time of a call. */
INLINE void begin(int kind) {
#if HAS_TILES
  if (kind != FLOAT32) set_tiles();
#endif
  (void)kind;
}

INLINE void end(int kind) {
#if HAS_TILES
  if (kind != FLOAT32) _tile_release();
#endif
  (void)kind;
}

/* What a product left, as numbers; of three sums those of larger bytes come first, `apart`. */
INLINE vec summed(int kind, const float *at, long apart, const float *w_scale, float row_scale) {
  if (!has_scale(kind)) return read_floats(at);
  vec x = __builtin_convertvector((ints)read_floats(at), vec);
  if (kind == INT8X3) {
    vec second = __builtin_convertvector((ints)read_floats(at + apart), vec);
    vec third = __builtin_convertvector((ints)read_floats(at + 2 * apart), vec);
    x = (x * all(256) + second) * all(256) + third;
    row_scale *= 65536; /* the place of the last sum */
  }
  return x * (read_floats(w_scale) * all(row_scale));
}

/* Write a vector of a row of `n`, from the one at `i` on, as they will be multiplied, each
 * into its spot. */
INLINE void write_numbers(int kind, char *rows, long r, long i, long n, vec x) {
  const long size = size_of(kind);
#if HAS_TILES
  if (kind == INT8X3) {
    ints left = (ints)_mm512_cvtps_epi32((__m512)x);
    for (long byte = 2; byte >= 0; byte--) {
      const long at = i / APART * APART * 3 + byte * APART + i % APART;
      const ints low = left << 24 >> 24; /* with its sign */
      *(bytes *)spot(kind, rows, r, at, n * size) = __builtin_convertvector(low, bytes);
      left = (left - low) >> 8;
    }
    return;
  }
#endif
  char *at = spot(kind, rows, r, i * size, n * size);
  if (kind == FLOAT32)
    write_floats((float *)at, x);
  else if (kind == BFLOAT16)
    write_halves((uint16_t *)at, x);
  else
    write_bytes((int8_t *)at, x);
}

/* Write a row as it will be multiplied; gives its scale. */
INLINE float write_row(int kind, const float *row, long n, char *rows, long r) {
  const float most = has_scale(kind) ? largest(row, n) : 0;
  const vec factor = all(most > 0 ? most_of(kind) / most : 0);
  for (long i = 0; i < n; i += WIDE) {
    vec x = read_floats(row + i);
    write_numbers(kind, rows, r, i, n, has_scale(kind) ? x * factor : x);
  }
  return has_scale(kind) ? most / most_of(kind) : 1;
}

/* ------------------------------------------------------------------ what is called */

/* Whether the system gives its leave for tiles, where the CPU has them; asked for once. */
static int has_leave(void) {
#if HAS_TILES
  enum { REQUEST = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return 1;
#endif
}

/* Whether a kind can be used here. */
int has(int kind) {
  if (kind == FLOAT32) return 1;
  const int is_there = kind == INT8 ? HAS_BYTES : kind == BFLOAT16 ? HAS_HALVES : HAS_TILES;
  return is_there && has_leave();
}

/* Ask for large pages of fresh memory: weights and gates are read all over. */
void large_pages(char *at, long n) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  madvise(at, n, MADV_HUGEPAGE);
#else
  (void)at, (void)n;
#endif
}

static uint16_t half_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)((bits + ((bits >> 16) & 1) + 0x7fff) >> 16);
}

/* See `pack`: once for each kind, lest each number ask which it is. */
INLINE void pack_all(int kind, const float *w, long n, long k, long block, char *out,
                     float *scale) {
  const long width = kind == FLOAT32 ? PANEL : 16;
  /* Numbers of a column side by side. */
  const long pair = kind == FLOAT32 ? 1 : kind == BFLOAT16 ? 2 : 4;
  for (long column = 0; column < n; column++, w += k) {
    const float most = has_scale(kind) ? largest(w, k) : 0;
    const float factor = most > 0 ? most_of(kind) / most : 0;
    if (has_scale(kind)) scale[column] = most / most_of(kind);
    for (long first = 0; first < k; first += block) {
      const float *row = w + first;
      char *panel = out + (first * n + column / width * width * block) * size_of(kind);
      for (long i = 0; i < block; i++) {
        const long at = (i / pair * width + column % width) * pair + i % pair;
        if (kind == FLOAT32) {
          ((float *)panel)[at] = row[i];
        } else if (kind == INT8) {
          const float x = row[i] * factor + ROUNDING;
          uint32_t bits;
          memcpy(&bits, &x, 4);
          panel[at] = (char)bits;
        } else if (kind == BFLOAT16) {
          ((uint16_t *)panel)[at] = half_of(row[i]);
        } else {
          const float x = row[i] * factor;
          int32_t left = (int32_t)(x < 0 ? x - 0.5f : x + 0.5f);
          /* A tile of first bytes, then those of the others. */
          int8_t *byte = (int8_t *)panel + at + i / APART * APART * width * 2;
          for (long place = 2; place >= 0; place--) {
            byte[place * APART * width] = (int8_t)left;
            left = (left - (int8_t)left) >> 8;
          }
        }
      }
    }
  }
}

/* Pack weights (n, k) for `by_columns`, `block` of the k after another; `scale` is that of bytes,
 * (n,). */
void pack(int kind, const float *w, long n, long k, long block, char *out, float *scale) {
  if (kind == FLOAT32)
    pack_all(FLOAT32, w, n, k, block, out, scale);
  else if (kind == BFLOAT16)
    pack_all(BFLOAT16, w, n, k, block, out, scale);
  else if (kind == INT8)
    pack_all(INT8, w, n, k, block, out, scale);
  else
    pack_all(INT8X3, w, n, k, block, out, scale);
}

/* Write some rows of a table, in the order of `index` (or as they are, without), as they are
 * multiplied. */
void gather(int kind, const float *table, const int64_t *index, long first, long last, long k,
            char *out, float *scale) {
  for (long r = first; r < last; r++) {
    const float *row = table + (index ? index[r] : r) * k;
    scale[r] = write_row(kind, row, k, out, r);
  }
}

/* The input's share of gates: float32, and bfloat16 where the arithmetic is narrow. */
INLINE void write_gates(int kind, char *gates, long at, vec x) {
  if (is_narrow(kind))
    write_halves((uint16_t *)gates + at, x);
  else
    write_floats((float *)gates + at, x);
}

INLINE vec read_gates(int kind, const char *gates, long at) {
  return is_narrow(kind) ? read_halves((const uint16_t *)gates + at)
                         : read_floats((const float *)gates + at);
}

typedef struct {
  int64_t rows, k, n;          /* of a product (rows, k) (k, n) */
  int64_t first, last;         /* its columns, multiples of 64 */
  int64_t after;               /* what becomes of it */
  const char *a;               /* what `gather` wrote */
  const float *a_scale;
  const char *w;               /* what `pack` wrote */
  const float *w_scale, *bias; /* (n,) */
  const float *x;              /* of a highway layer, (rows, n / 2) */
  char *out;
  float *room;                 /* (TOGETHER, 96) */
} product;

enum {
  PLAIN,   /* (rows, n) */
  GATES,   /* (n / 64, rows, 64), and in bfloat16 what is narrow */
  HIGHWAY, /* (rows, n / 2): sixteen columns of what x is transformed to stand before their gates */
};

/* Rows that stay in the second cache; a multiple of those that are multiplied together. */
#define TOGETHER 240

/* Take the sums of a vector in each of two times sixteen columns of a row to where they belong. */
INLINE void finish_some(int kind, const product *p, long row, long column, const float *sums,
                        long width) {
  vec x[2];
  for (int half = 0; half < 2; half++) {
    const long at = column + half * LANES;
    x[half] = summed(kind, sums + half * LANES, width, p->w_scale + at, p->a_scale[row]);
    x[half] += read_floats(p->bias + at);
  }
  if (p->after == HIGHWAY) {
    const long at = row * (p->n / 2) + column / (2 * LANES) * LANES + column % LANES;
    const vec before = read_floats(p->x + at);
    const vec transformed = choose(x[0] < all(0), all(0), x[0]); /* what is no number stays none */
    const vec gate = sigmoid(x[1], 0), change = transformed - before;
    /* From the nearer end, lest a large number take the digits of a small one. */
    const vec first = before + gate * change, last = transformed - (all(1) - gate) * change;
    write_floats((float *)p->out + at, choose(gate < all(0.5f), first, last));
    return;
  }
  for (int half = 0; half < 2; half++) {
    const long at = column + half * LANES;
    if (p->after == GATES)
      write_gates(kind, p->out, (at / 64 * p->rows + row) * 64 + at % 64, x[half]);
    else
      write_floats((float *)p->out + row * p->n + at, x[half]);
  }
}

INLINE void columns(int kind, const product *p) {
  const long width = width_of(kind), stride = width * sums_of(kind);
  begin(kind);
  for (long first = 0; first < p->rows; first += TOGETHER) {
    long rows = p->rows - first < TOGETHER ? p->rows - first : TOGETHER;
    const char *a = p->a + first * p->k * size_of(kind);
    for (long column = p->first; column < p->last; column += width) {
      by_columns(kind, a, p->k, rows, p->w, column, 0, p->room, stride);
      for (long r = 0; r < rows; r++)
        for (long from = 0; from < width; from += 2 * LANES)
          for (long i = from; i < from + LANES; i += WIDE)
            finish_some(kind, p, first + r, column + i, p->room + r * stride + i, width);
    }
  }
  end(kind);
}

typedef struct {
  int64_t words, length, rows; /* length: characters of a word; rows: distinct ones */
  int64_t columns, n;          /* of a row of `out`; of convolutions */
  const int64_t *shapes;     /* (n, 2): the width of each, and its filters */
  const int64_t *characters; /* (words, length): which of the distinct ones */
  const float *shares; /* of each (filters / 64, width, rows, 64): a character's at each place */
  const float *bias;   /* of each (filters, filled up) */
  float *out;          /* (words, columns) */
} convolutions;

/* Count the windows until all that follow equal one that was seen: a word is filled up with one
 * character, and a maximum does not count repetitions. */
INLINE long windows(const int64_t *word, long length, long width) {
  long used = length;
  while (used > 0 && word[used - 1] == word[length - 1]) used--;
  return used + width < length ? used + 1 : length - width + 1;
}

/* What a window gives is the sum of what its characters give at their places, and there are few
 * characters: nothing is multiplied here, and float32 costs no more than narrow products would. */
static void pooled_block(const convolutions *v, long width, long filters, const float *shares,
                         const float *bias, float *out) {
  enum { N = 64 / WIDE };
  for (long word = 0; word < v->words; word++) {
    const int64_t *window = v->characters + word * v->length;
    const int64_t *past = window + windows(window, v->length, width);
    vec most[N];
    for (int h = 0; h < N; h++) most[h] = all(-__builtin_inff());
    for (; window < past; window++) {
      vec x[N] = {{0}};
      for (long place = 0; place < width; place++) {
        const float *share = shares + (place * v->rows + window[place]) * 64;
        for (int h = 0; h < N; h++) x[h] += read_floats(share + h * WIDE);
      }
      for (int h = 0; h < N; h++) /* what is no number stays none */
        most[h] = choose((x[h] > most[h]) | (x[h] != x[h]), x[h], most[h]);
    }
    for (int h = 0; h < N; h++) {
      const long left = filters - h * WIDE;
      vec x = most[h] + read_floats(bias + h * WIDE);
      if (left >= WIDE)
        write_floats(out + h * WIDE, x);
      else
        for (long i = 0; i < left; i++) out[h * WIDE + i] = x[i];
    }
    out += v->columns;
  }
}

void pooled(const convolutions *v) {
  const float *shares = v->shares, *bias = v->bias;
  float *out = v->out;
  for (long i = 0; i < v->n; i++) {
    const long width = v->shapes[2 * i], filters = v->shapes[2 * i + 1];
    for (long filter = 0; filter < filters; filter += 64) {
      pooled_block(v, width, filters - filter, shares, bias, out + filter);
      shares += 64 * width * v->rows;
      bias += 64;
    }
    out += filters;
  }
}

typedef struct {
  /* Sizes: a step is a row of `index` and of `outputs`, `batch` long. */
  int64_t cell, out, batch, first_step, last_step, reverse, rows, inputs;
  int64_t block; /* of units that are projected together, a divisor of `cell` */
  /* Bounds, or 0 for none. */
  float cell_clip, projection_clip;
  const char *gates;      /* (cell / 16, inputs, 64): what `product` gave */
  const int64_t *index;   /* which input, for each place */
  const int64_t *active;  /* rows of each step, the first ones; the state of the others stays */
  const char *recurrent;  /* packed (4 * cell, out), in the order of the gates */
  const float *recurrent_scale;
  const char *projection; /* packed (out, cell) by blocks, or none where both are as wide */
  float *cells;   /* (cell / 16, rows, 16), in and out: see `turn_cells` */
  float *h;       /* (rows, out), in and out */
  float *outputs; /* (steps, batch, out) */
  char *state;    /* room: h as it is multiplied */
  float *state_scale;
  char *hidden;   /* room: a block of units of all rows as it is multiplied */
  float *sums;    /* room: (out / width, rows, width), rows filled up: projected so far */
  float *room;    /* twice (rows, 64, or 3 * 64), rows filled up */
} walk;

INLINE long filled(long rows) { return (rows + 31) / 32 * 32; }

/* What units are projected in. Most of them are far below the largest: with one scale for a row,
 * int8 would leave nothing of half of them. */
INLINE int in_units(int kind) {
  return kind == INT8X3 ? FLOAT32 : kind != INT8 ? kind : HAS_HALVES ? BFLOAT16 : FLOAT32;
}
int projected_in(int kind) { return in_units(kind); }

/* Cells of sixteen units that wait to be computed, the products of their gates being there. */
typedef struct {
  const walk *w;
  const int64_t *index; /* of the step */
  const float *sums;    /* (rows, 64, or 3 * 64) */
  long unit, in_block;  /* the first of the units, and where that is in its block */
  long row, last;
  vec cell[PARTS], gate[PARTS]; /* of the row before: what its output is made of */
} waiting;

INLINE void wait_for(waiting *p, long unit, const float *sums, long n) {
  p->sums = sums;
  p->unit = unit;
  p->in_block = unit % p->w->block; /* a division takes as long as a cell: once for all rows */
  p->row = 0;
  p->last = n;
}

/* From cell and output gate to what is projected. */
INLINE void finish_cells(int kind, const waiting *p, long r, int part) {
  const walk *w = p->w;
  const long i = part * WIDE;
  vec out = p->gate[part] * tanh_of(p->cell[part], is_narrow(kind));
  if (!w->projection) {
    write_floats(w->h + r * w->cell + p->unit + i, out);
    return;
  }
  write_numbers(in_units(kind), w->hidden, r, p->in_block + i, w->block, out);
}

/* Compute the cells of the next row, and finish those of the row before: done at once, one after the
 * other would be all that a core can look ahead. */
INLINE void next_cells(int kind, waiting *p) {
  const walk *w = p->w;
  const int is_rough = is_narrow(kind);
  const long r = p->row, unit = p->unit;
  const long place = (unit / LANES * w->inputs + p->index[r]) * 64;
  /* Inputs stand anywhere: those of the next units are asked for before they are needed. */
  const long size = is_narrow(kind) ? 2 : 4;
  const char *next = w->gates + (place + 64 * w->inputs) * size;
  for (long byte = 0; byte < 64 * size; byte += 64) __builtin_prefetch(next + byte, 0, 2);
  for (int part = 0; part < PARTS; part++) {
    vec gate[4];
    for (int g = 0; g < 4; g++) {
      const long i = g * LANES + part * WIDE;
      const float *scale = w->recurrent_scale + 4 * unit + i;
      gate[g] = summed(kind, p->sums + i, 64, scale, w->state_scale[r]);
      gate[g] += read_gates(kind, w->gates, place + i);
    }
    if (r > 0) finish_cells(kind, p, r - 1, part);
    float *at = w->cells + unit * w->rows + r * LANES + part * WIDE;
    vec cell = sigmoid(gate[1], is_rough) * read_floats(at);
    cell += sigmoid(gate[0], is_rough) * tanh_of(gate[2], is_rough);
    if (w->cell_clip > 0) cell = clip(cell, w->cell_clip);
    write_floats(at, cell);
    p->cell[part] = cell;
    p->gate[part] = sigmoid(gate[3], is_rough);
  }
  p->sums += 64 * sums_of(kind);
  p->row = r + 1;
}

INLINE void all_cells(int kind, waiting *p) {
  if (p->last == 0) return;
  while (p->row < p->last) next_cells(kind, p);
  for (int part = 0; part < PARTS; part++) finish_cells(kind, p, p->last - 1, part);
}

#if HAS_TILES

/* Products of the gates of sixteen units, (rows, 64). The tile unit works beside the vector units,
 * so the cells of the units before are computed between its products. */
INLINE void gates_by_tiles(int kind, const walk *w, long n, long unit, float *sums,
                           waiting *before) {
  const long row_bytes = w->out * size_of(kind), depth = row_bytes / 64;
  const long tile_column = depth * TILE_BYTES, each = tiles_each(kind);
  const long stride = 64 * sums_of(kind), beside = kind == INT8X3 ? 64 : 16;
  const char *weights = w->recurrent + 4 * unit * row_bytes;
  const char *soon = weights + 4 * tile_column, *past = soon + 4 * tile_column;
  const long products = 64 / panel_of(kind) * depth / each;
  const int share = (int)((32 + products - 1) / products); /* rows of cells for each of them */
  for (long column = 0; column < 64; column += panel_of(kind)) {
    const char *w0 = weights + column / 16 * tile_column, *w1 = w0 + tile_column;
    for (long from = 0; from < depth; from += DEEP * each) {
      const long to = depth - from < DEEP * each ? depth : from + DEEP * each;
      for (long r = 0; r < n; r += 32) {
        const char *a0 = w->state + r * row_bytes, *a1 = a0 + 16 * row_bytes;
        float *at = sums + r * stride + column;
        const int is_double = n - r > 16;
        begin_sums(kind, from > 0, is_double, at, stride, beside);
        for (long i = from; i < to; i += each) {
          multiply(kind, is_double, a0 + TILE_BYTES * i, a1 + TILE_BYTES * i, w0 + TILE_BYTES * i,
                   w1 + TILE_BYTES * i);
          soon = fetched(kind, soon, past);
          for (int q = 0; q < share; q++)
            if (before->row < before->last) next_cells(kind, before);
        }
        end_sums(kind, is_double, at, stride, beside);
      }
    }
  }
  all_cells(kind, before);
}
#endif

/* Project a block of units, while what the cells gave is near. */
INLINE void project(int kind, const walk *w, long n, long block) {
  const int in = in_units(kind);
  const long width = width_of(in);
  const char *weights = w->projection + block * w->out * size_of(in);
  for (long column = 0; column < w->out; column += width)
    by_columns(in, w->hidden, w->block, n, weights, column, block > 0,
               w->sums + column * filled(w->rows), width);
}

/* All gates and cells of a step, and what they give projected, for its first n rows. */
INLINE void gates_and_cells(int kind, const walk *w, const int64_t *index, long n) {
  waiting next = {.w = w, .index = index};
#if HAS_TILES
  if (kind != FLOAT32) {
    float *sums[2] = {w->room, w->room + filled(n) * 64 * sums_of(kind)};
    int turn = 0;
    for (long unit = 0; unit < w->cell; unit += LANES, turn = !turn) {
      gates_by_tiles(kind, w, n, unit, sums[turn], &next);
      /* All cells of the block before are there, those of this one not yet. */
      if (w->projection && unit > 0 && unit % w->block == 0) project(kind, w, n, unit - w->block);
      wait_for(&next, unit, sums[turn], n);
    }
    all_cells(kind, &next);
    if (w->projection) project(kind, w, n, w->cell - w->block);
    return;
  }
#endif
  for (long unit = 0; unit < w->cell; unit += LANES) {
    by_columns(kind, w->state, w->out, n, w->recurrent, 4 * unit, 0, w->room, 64);
    wait_for(&next, unit, w->room, n);
    all_cells(kind, &next);
    const long past = unit + LANES;
    if (w->projection && past % w->block == 0) project(kind, w, n, past - w->block);
  }
}

/* What all blocks came to. */
INLINE void take_projected(int kind, const walk *w, long n) {
  const long width = width_of(in_units(kind));
  for (long v = 0; v < w->out; v += WIDE) {
    const float *sums = w->sums + v / width * width * filled(w->rows) + v % width;
    for (long r = 0; r < n; r++) {
      vec x = read_floats(sums + r * width);
      if (w->projection_clip > 0) x = clip(x, w->projection_clip);
      write_floats(w->h + r * w->out + v, x);
    }
  }
}

/* Bring cells, (rows, cell), into the order they are computed in, or back. */
void turn_cells(float *c, float *cells, long rows, long cell, int is_back) {
  for (long unit = 0; unit < cell; unit += LANES)
    for (long r = 0; r < rows; r++) {
      float *row = c + r * cell + unit, *own = cells + unit * rows + r * LANES;
      memcpy(is_back ? row : own, is_back ? own : row, 4 * LANES);
    }
}

INLINE void steps(int kind, const walk *w) {
  const long n_steps = w->last_step - w->first_step;
  begin(kind);
  long known = 0; /* rows whose state has been written as it is multiplied */
  for (long s = 0; s < n_steps; s++) {
    long step = w->reverse ? w->last_step - 1 - s : w->first_step + s;
    long n = w->active[step];
    for (long r = known; r < n; r++) /* rows that begin here */
      w->state_scale[r] = write_row(kind, w->h + r * w->out, w->out, w->state, r);
    known = n > known ? n : known;
    gates_and_cells(kind, w, w->index + step * w->batch, n);
    if (w->projection) take_projected(kind, w, n);
    for (long r = 0; r < n; r++) {
      const float *h = w->h + r * w->out;
      memcpy(w->outputs + (step * w->batch + r) * w->out, h, 4 * w->out);
      w->state_scale[r] = write_row(kind, h, w->out, w->state, r);
    }
  }
  end(kind);
}

void product_float32(const product *p) { columns(FLOAT32, p); }
void walk_float32(const walk *w) { steps(FLOAT32, w); }

#if HAS_BYTES
void product_int8(const product *p) { columns(INT8, p); }
void walk_int8(const walk *w) { steps(INT8, w); }
#endif

#if HAS_HALVES
void product_bfloat16(const product *p) { columns(BFLOAT16, p); }
void walk_bfloat16(const walk *w) { steps(BFLOAT16, w); }
#endif

#if HAS_TILES
void product_int8x3(const product *p) { columns(INT8X3, p); }
void walk_int8x3(const walk *w) { steps(INT8X3, w); }
#endif

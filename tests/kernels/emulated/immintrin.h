/* Emulation in plain C of the AVX-512 and AMX instructions that native.c uses, so that its code for
 * newer Xeons can be tested on any CPU.
 *
 * It replaces the compiler's header if this folder comes first in the include path. Integer results
 * equal those of the CPU bit for bit. Floating-point results may be rounded differently, and
 * reciprocals are exact.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline, unused)) /* inlining compiles too slowly */

typedef float __m512 __attribute__((vector_size(64)));
typedef int32_t __m512i __attribute__((vector_size(64)));
typedef int32_t __m512bh __attribute__((vector_size(64)));
typedef uint16_t __m256bh __attribute__((vector_size(32)));

/* ------------------------------------------------------------------ vectors */

ALWAYS_INLINE __m512 _mm512_set1_ps(float x) { return x - (__m512){0}; }
ALWAYS_INLINE __m512i _mm512_set1_epi32(int x) { return x - (__m512i){0}; }

#define ELEMENTWISE(name, parameters, element)        \
  NOINLINE __m512 name parameters {                   \
    __m512 result;                                    \
    for (int i = 0; i < 16; i++) result[i] = element; \
    return result;                                    \
  }
/* Minimum and maximum return the second operand if either is NaN. */
ELEMENTWISE(_mm512_min_ps, (__m512 a, __m512 b), a[i] < b[i] ? a[i] : b[i])
ELEMENTWISE(_mm512_max_ps, (__m512 a, __m512 b), a[i] > b[i] ? a[i] : b[i])
ELEMENTWISE(_mm512_rcp14_ps, (__m512 x), 1 / x[i])
ELEMENTWISE(_mm512_scalef_ps, (__m512 x, __m512 power), x[i] * exp2f(floorf(power[i])))
/* x - floor(x), the only mode that native.c uses. */
ELEMENTWISE(_mm512_reduce_ps, (__m512 x, int mode), ((void)mode, x[i] - floorf(x[i])))

/* Round to nearest, ties to even. */
NOINLINE __m512i _mm512_cvtps_epi32(__m512 x) {
  __m512i result;
  for (int i = 0; i < 16; i++)
    result[i] = fabsf(x[i]) < 2147483648.0f ? (int32_t)rintf(x[i]) : INT32_MIN;
  return result;
}

NOINLINE __m256bh _mm512_cvtneps_pbh(__m512 x) {
  __m256bh result;
  for (int i = 0; i < 16; i++) {
    const float value = x[i];
    uint32_t bits;
    memcpy(&bits, &value, 4);
    result[i] = value != value ? 0x7fc0 : (uint16_t)((bits + ((bits >> 16) & 1) + 0x7fff) >> 16);
  }
  return result;
}

/* ------------------------------------------------------------------ dot products */

/* The first and the second bfloat16 of each pair, as float32. */
ALWAYS_INLINE __m512 first_of(__m512i pairs) { return (__m512)(pairs << 16); }
ALWAYS_INLINE __m512 second_of(__m512i pairs) { return (__m512)(pairs & (int)0xffff0000); }

NOINLINE __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a, __m512bh b) {
  sums += second_of((__m512i)a) * second_of((__m512i)b);
  return sums + first_of((__m512i)a) * first_of((__m512i)b);
}

/* Byte `shift / 8` of each 32-bit integer. */
ALWAYS_INLINE __m512i signed_byte(__m512i fours, int shift) { return fours << (24 - shift) >> 24; }
ALWAYS_INLINE __m512i unsigned_byte(__m512i fours, int shift) { return (fours >> shift) & 255; }

NOINLINE __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b) {
  for (int shift = 0; shift < 32; shift += 8) sums += unsigned_byte(a, shift) * signed_byte(b, shift);
  return sums;
}

/* ------------------------------------------------------------------ tiles */

/* Eight tiles of 16 rows of 64 bytes. */
static _Thread_local __m512i tile[8][16];

NOINLINE void load_tile(int n, const void *at, long stride) {
  for (int row = 0; row < 16; row++) memcpy(&tile[n][row], (const char *)at + row * stride, 64);
}

NOINLINE void store_tile(int n, void *at, long stride) {
  for (int row = 0; row < 16; row++) memcpy((char *)at + row * stride, &tile[n][row], 64);
}

NOINLINE void multiply_int8(int sums, int a, int b) {
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++) {
      const __m512i x = _mm512_set1_epi32(tile[a][row][k]);
      for (int shift = 0; shift < 32; shift += 8)
        tile[sums][row] += signed_byte(x, shift) * signed_byte(tile[b][k], shift);
    }
}

NOINLINE void multiply_bfloat16(int sums, int a, int b) {
  for (int row = 0; row < 16; row++) {
    __m512 total = (__m512)tile[sums][row];
    for (int k = 0; k < 16; k++)
      total = _mm512_dpbf16_ps(total, (__m512bh)_mm512_set1_epi32(tile[a][row][k]),
                               (__m512bh)tile[b][k]);
    tile[sums][row] = (__m512i)total;
  }
}

#define _tile_loadconfig(shape) ((void)(shape))
#define _tile_release() ((void)0)
#define _tile_zero(n) memset(tile[n], 0, sizeof tile[n])
#define _tile_loadd(n, at, stride) load_tile(n, at, stride)
#define _tile_stored(n, at, stride) store_tile(n, at, stride)
#define _tile_dpbssd(sums, a, b) multiply_int8(sums, a, b)
#define _tile_dpbf16ps(sums, a, b) multiply_bfloat16(sums, a, b)

/* The request for permission to use AMX always succeeds. */
#undef SYS_arch_prctl
#define SYS_arch_prctl 0
#define syscall(...) 0L

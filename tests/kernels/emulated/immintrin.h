/* What native.c asks of newer Xeons, in plain C: its ways for them can be tested on any CPU.
 *
 * Found in place of the compiler's own header where this folder is searched first. Whole numbers are
 * what the CPUs give to the last bit; others may be rounded otherwise, and reciprocals are exact.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALWAYS static inline __attribute__((always_inline))
#define ONCE static __attribute__((noinline, unused)) /* compilers take long over it */

typedef float __m512 __attribute__((vector_size(64)));
typedef int32_t __m512i __attribute__((vector_size(64)));
typedef int32_t __m512bh __attribute__((vector_size(64)));
typedef uint16_t __m256bh __attribute__((vector_size(32)));

/* ------------------------------------------------------------------ vectors */

ALWAYS __m512 _mm512_set1_ps(float x) { return x - (__m512){0}; }
ALWAYS __m512i _mm512_set1_epi32(int x) { return x - (__m512i){0}; }

#define BY_NUMBER(name, given, one)                  \
  ONCE __m512 name given {                           \
    __m512 found;                                    \
    for (int i = 0; i < 16; i++) found[i] = one;     \
    return found;                                    \
  }
/* The second one where either is no number. */
BY_NUMBER(_mm512_min_ps, (__m512 a, __m512 b), a[i] < b[i] ? a[i] : b[i])
BY_NUMBER(_mm512_max_ps, (__m512 a, __m512 b), a[i] > b[i] ? a[i] : b[i])
BY_NUMBER(_mm512_rcp14_ps, (__m512 x), 1 / x[i])
BY_NUMBER(_mm512_scalef_ps, (__m512 x, __m512 power), x[i] * exp2f(floorf(power[i])))
/* What is over the next whole number below, which is all that is asked for. */
BY_NUMBER(_mm512_reduce_ps, (__m512 x, int how), ((void)how, x[i] - floorf(x[i])))

/* To the nearest whole number, of two the even one. */
ONCE __m512i _mm512_cvtps_epi32(__m512 x) {
  __m512i found;
  for (int i = 0; i < 16; i++)
    found[i] = fabsf(x[i]) < 2147483648.0f ? (int32_t)rintf(x[i]) : INT32_MIN;
  return found;
}

ONCE __m256bh _mm512_cvtneps_pbh(__m512 x) {
  __m256bh found;
  for (int i = 0; i < 16; i++) {
    const float one = x[i];
    uint32_t bits;
    memcpy(&bits, &one, 4);
    found[i] = one != one ? 0x7fc0 : (uint16_t)((bits + ((bits >> 16) & 1) + 0x7fff) >> 16);
  }
  return found;
}

/* ------------------------------------------------------------------ dot products */

/* A bfloat16 of each pair, as a float. */
ALWAYS __m512 first_of(__m512i pairs) { return (__m512)(pairs << 16); }
ALWAYS __m512 second_of(__m512i pairs) { return (__m512)(pairs & (int)0xffff0000); }

ONCE __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh a, __m512bh b) {
  sums += second_of((__m512i)a) * second_of((__m512i)b);
  return sums + first_of((__m512i)a) * first_of((__m512i)b);
}

/* The byte of each four that is so many bits up. */
ALWAYS __m512i signed_byte(__m512i fours, int up) { return fours << (24 - up) >> 24; }
ALWAYS __m512i unsigned_byte(__m512i fours, int up) { return (fours >> up) & 255; }

ONCE __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b) {
  for (int up = 0; up < 32; up += 8) sums += unsigned_byte(a, up) * signed_byte(b, up);
  return sums;
}

/* ------------------------------------------------------------------ tiles */

/* Sixteen rows of sixteen times four bytes. */
static _Thread_local __m512i tile[8][16];

ONCE void load_tile(int n, const void *at, long stride) {
  for (int row = 0; row < 16; row++) memcpy(&tile[n][row], (const char *)at + row * stride, 64);
}

ONCE void store_tile(int n, void *at, long stride) {
  for (int row = 0; row < 16; row++) memcpy((char *)at + row * stride, &tile[n][row], 64);
}

ONCE void multiply_bytes(int sums, int a, int b) {
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++) {
      const __m512i x = _mm512_set1_epi32(tile[a][row][k]);
      for (int up = 0; up < 32; up += 8)
        tile[sums][row] += signed_byte(x, up) * signed_byte(tile[b][k], up);
    }
}

ONCE void multiply_halves(int sums, int a, int b) {
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
#define _tile_dpbssd(sums, a, b) multiply_bytes(sums, a, b)
#define _tile_dpbf16ps(sums, a, b) multiply_halves(sums, a, b)

/* The system's leave for tiles. */
#undef SYS_arch_prctl
#define SYS_arch_prctl 0
#define syscall(...) 0L

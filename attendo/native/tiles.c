/* Linear layers and the loss with products of bfloat16 by AMX, on processors that have it: a register holds 16 rows of 32
 * numbers, and one instruction multiplies two of them. Linux gives a process these registers when it asks. */
#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

#define PAIRS
#define TILES
#include "vectors.h"

#define ASK_FOR_A_FEATURE 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18             /* XFEATURE_XTILEDATA */

/* Whether this processor has tiles, and its system lets this process and its threads use them. */
long has_tiles(void) {
    unsigned a, b, c, d;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    int multiplies_bfloat16 = d >> 22 & 1, there = d >> 24 & 1;
    __builtin_cpu_init();
    if (!multiplies_bfloat16 || !there || !__builtin_cpu_supports("avx512bf16")) return 0; /* which rounds */
    return syscall(SYS_arch_prctl, ASK_FOR_A_FEATURE, TILE_DATA) == 0;
}

#define NAMED(function) function##_tiles
#include "layers.h"

#else
long has_tiles(void) { return 0; }
#endif

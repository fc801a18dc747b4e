/* Linear layers and the loss with products of bfloat16, on processors that have them (AVX512-BF16): half as many
 * instructions, and numbers are rounded to eight binary digits before they are multiplied. */
#if defined(__AVX512F__) && defined(__AVX512VL__)

#define PAIRS
#include "vectors.h"

/* Whether this processor does. */
long has_bfloat16(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") != 0;
}

#define NAMED(function) function##_bfloat16
#include "layers.h"

#else
long has_bfloat16(void) { return 0; }
#endif

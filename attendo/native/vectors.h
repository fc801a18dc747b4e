/* What the files beside this are made of: vectors of the compiler, and `tile`, a product small enough that its result stays
 * in registers, for one thread and float32.
 *
 * Where PAIRS is defined before, what is multiplied are pairs of bfloat16 instead, each in the place of one float32: A(i, k)
 * holds two neighbours of a row, B[k, j] two of a column, and their products are added in float32 (AVX512-BF16). Where
 * TILES is defined besides, AMX does it: ak is 1, and K a multiple of 16, with zeros for pairs that are not there. */
#ifndef ATTENDO_VECTORS_H
#define ATTENDO_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(TILES)
#define LANES 16
#define ROWS 32 /* two registers of 16 rows */
#elif defined(__AVX512F__)
#define LANES 16 /* floats in a register */
#define ROWS 12  /* of a tile: 2 * ROWS registers hold the result, and a few are left for what is multiplied */
#elif defined(__AVX2__)
#define LANES 8
#define ROWS 6
#elif defined(__aarch64__)
#define LANES 4
#define ROWS 12
#else
#define LANES 4
#define ROWS 6
#endif
#define COLUMNS (2 * LANES)

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define ALWAYS static inline __attribute__((always_inline))
#define LOCAL static __attribute__((unused)) /* not every file needs all of them */
#define UNROLL _Pragma("GCC unroll 16")

ALWAYS vec load(const float *from) { return *(const vec *)from; }
ALWAYS void store(float *to, vec x) { *(vec *)to = x; }
ALWAYS vec all(float x) { return x - (vec){0}; }
ALWAYS vec where(ivec condition, vec a, vec b) { return (vec)(((ivec)a & condition) | ((ivec)b & ~condition)); }
ALWAYS vec larger(vec a, vec b) { return where(a > b, a, b); }
LOCAL long smaller(long a, long b) { return a < b ? a : b; }
LOCAL long rounded_up(long n, long to) { return (n + to - 1) / to * to; }

ALWAYS float sum_of(vec x) { /* by halves, which takes fewer steps than one by one */
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#endif
    float half[LANES];
    store(half, x);
    for (int n = LANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) half[i] += half[i + n];
    return half[0];
}

ALWAYS float largest_of_all(vec x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* e^x for x <= 88; 0 below -87. x = n log 2 + r, and e^r is a polynomial (Cephes' expf). */
ALWAYS vec exponential(vec x) {
    ivec none = x < -87.0f; /* what is no number stays so */
    x = where(none, all(-87.0f), x);
    vec shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, in the lowest bits */
    ivec n = (ivec)shifted - (ivec)all(12582912.0f);
    vec rounded = shifted - 12582912.0f;
    vec r = x - rounded * 0.693359375f + rounded * 2.12194440e-4f;
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return where(none, (vec){0}, p * (vec)((n + 127) << 23));
}

/* --- products ------------------------------------------------------------------------------------------------------ */

#if defined(TILES)

/* Registers of 16 rows of 64 bytes, named by number: 0 to 3 for the result, 4 and 5 for A, 6 and 7 for B. */
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define TILE_LOAD(t, from, apart) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"(4 * (apart)) : "memory")
#define TILE_STORE(t, to, apart) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"(4 * (apart)) : "memory")
#define TILE_PRODUCT(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* Before and after any products: the registers' shape is this thread's until another library needs one of its own. */
LOCAL void begin_products(void) {
    struct {
        uint8_t palette, start_row, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int t = 0; t < 8; t++) shape.bytes[t] = 64, shape.rows[t] = 16;
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));
}
LOCAL void end_products(void) { __asm__ volatile("tilerelease"); }

/* C[i, j] = Σ_k A(i, k) B[k, j] (+ Z[i, j]) for 16 or 32 rows and `vectors` * LANES columns. */
ALWAYS void whole_tiles(const int high, const int vectors, long K, const float *A, long ai, const float *B, long ldb,
                        float *C, long ldc, const float *Z, long ldz) {
    if (Z != NULL) {
        TILE_LOAD(0, Z, ldz);
        if (vectors == 2) TILE_LOAD(1, Z + 16, ldz);
        if (high) TILE_LOAD(2, Z + 16 * ldz, ldz);
        if (high && vectors == 2) TILE_LOAD(3, Z + 16 * ldz + 16, ldz);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (long k = 0; k < K; k += 16) {
        TILE_LOAD(6, B + k * ldb, ldb);
        TILE_LOAD(4, A + k, ai);
        TILE_PRODUCT(0, 4, 6);
        if (vectors == 2) TILE_LOAD(7, B + k * ldb + 16, ldb);
        if (vectors == 2) TILE_PRODUCT(1, 4, 7);
        if (high) TILE_LOAD(5, A + 16 * ai + k, ai);
        if (high) TILE_PRODUCT(2, 5, 6);
        if (high && vectors == 2) TILE_PRODUCT(3, 5, 7);
    }
    TILE_STORE(0, C, ldc);
    if (vectors == 2) TILE_STORE(1, C + 16, ldc);
    if (high) TILE_STORE(2, C + 16 * ldc, ldc);
    if (high && vectors == 2) TILE_STORE(3, C + 16 * ldc + 16, ldc);
}

/* The same for up to 32 rows, of which A may be read to the end of its 16 or 32: those of C are not written. */
ALWAYS void tile_of(long rows, const int vectors, long K, const float *A, long ai, long ak, const float *B, long ldb,
                    float *C, long ldc, const float *Z, long ldz) {
    float edge[ROWS * COLUMNS];
    long bytes = vectors * LANES * sizeof(float), to_ldc = ldc;
    float *to = C;
    (void)ak;
    if (rows % 16) {
        for (long i = 0; i < rows && Z != NULL; i++) memcpy(edge + i * COLUMNS, Z + i * ldz, bytes);
        to = edge, to_ldc = COLUMNS;
        if (Z != NULL) Z = edge, ldz = COLUMNS;
    }
    if (rows > 16)
        whole_tiles(1, vectors, K, A, ai, B, ldb, to, to_ldc, Z, ldz);
    else
        whole_tiles(0, vectors, K, A, ai, B, ldb, to, to_ldc, Z, ldz);
    for (long i = 0; i < rows && to == edge; i++) memcpy(C + i * ldc, edge + i * COLUMNS, bytes);
}

#define CASES(v) \
    default: tile_of(rows, v, K, A, ai, ak, B, ldb, C, ldc, Z, ldz);

#else

LOCAL void begin_products(void) {}
LOCAL void end_products(void) {}

/* c + a b; of pairs c + a₁ b₁ + a₂ b₂. */
ALWAYS vec plus_product(vec c, vec a, vec b) {
#if defined(PAIRS)
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#else
    return c + a * b;
#endif
}

/* What A holds, in every lane; a pair as it is, since as a float32 it may be no number. */
ALWAYS vec spread(const float *from) {
#if defined(PAIRS)
    int32_t bits;
    memcpy(&bits, from, sizeof bits);
    return (vec)(bits - (ivec){0});
#else
    return all(*from);
#endif
}

/* C[i, j] = Σ_k A(i, k) B[k, j] (+ Z[i, j]) for `rows` rows and `vectors` * LANES columns. A(i, k) is A[i * ai + k * ak];
 * rows of B are `ldb` apart, those of C `ldc`, those of Z, which may be C, or NULL, `ldz`. */
ALWAYS void tile_of(const int rows, const int vectors, long K, const float *A, long ai, long ak, const float *B,
                    long ldb, float *C, long ldc, const float *Z, long ldz) {
    vec c[ROWS][2];
    UNROLL for (int i = 0; i < rows; i++) {
        __builtin_prefetch(C + i * ldc, 1);
        if (vectors == 2 && LANES == 16) __builtin_prefetch(C + i * ldc + LANES, 1);
        c[i][0] = c[i][1] = (vec){0};
    }
    for (long k = 0; k < K; k++) {
        vec b0 = load(B + k * ldb), b1 = {0};
        if (vectors == 2) b1 = load(B + k * ldb + LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            vec a = spread(A + i * ai + k * ak);
            c[i][0] = plus_product(c[i][0], a, b0);
            if (vectors == 2) c[i][1] = plus_product(c[i][1], a, b1);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        if (Z != NULL) {
            c[i][0] += load(Z + i * ldz);
            if (vectors == 2) c[i][1] += load(Z + i * ldz + LANES);
        }
        store(C + i * ldc, c[i][0]);
        if (vectors == 2) store(C + i * ldc + LANES, c[i][1]);
    }
}

#define CASE(n, v) \
    case n: tile_of(n, v, K, A, ai, ak, B, ldb, C, ldc, Z, ldz); return;
#if ROWS == 12
#define CASES(v) CASE(1, v) CASE(2, v) CASE(3, v) CASE(4, v) CASE(5, v) CASE(6, v) \
    CASE(7, v) CASE(8, v) CASE(9, v) CASE(10, v) CASE(11, v) CASE(12, v)
#else
#define CASES(v) CASE(1, v) CASE(2, v) CASE(3, v) CASE(4, v) CASE(5, v) CASE(6, v)
#endif

#endif

LOCAL void wide_tile(long rows, long K, const float *A, long ai, long ak, const float *B, long ldb, float *C, long ldc,
                     const float *Z, long ldz) {
    switch (rows) { CASES(2) }
}

LOCAL void narrow_tile(long rows, long K, const float *A, long ai, long ak, const float *B, long ldb, float *C,
                       long ldc, const float *Z, long ldz) {
    switch (rows) { CASES(1) }
}

/* The same for any number of rows, in tiles as equal as can be, and a multiple of LANES columns; C is added to, or not. */
LOCAL void product(long M, long N, long K, const float *A, long ai, long ak, const float *B, long ldb, float *C,
                    long ldc, int add) {
    const float *Z = add ? C : NULL;
    long tiles = rounded_up(M, ROWS) / ROWS, most = tiles ? rounded_up(M, tiles) / tiles : 1;
    if (ROWS == 32) most = ROWS; /* a register is used whole or not at all */
    for (long j = 0; j < N; j += COLUMNS)
        for (long i = 0; i < M; i += most) {
            long rows = smaller(most, M - i), at = i * ldc + j;
            if (N - j >= COLUMNS)
                wide_tile(rows, K, A + i * ai, ai, ak, B + j, ldb, C + at, ldc, Z == NULL ? NULL : Z + at, ldc);
            else
                narrow_tile(rows, K, A + i * ai, ai, ak, B + j, ldb, C + at, ldc, Z == NULL ? NULL : Z + at, ldc);
        }
}

#if defined(__AVX512F__)
/* to[k, n] = from[n, k] for 16 by 16 numbers, of which `rows` and `columns` are there; the others are 0. */
ALWAYS void turned_block(const float *from, long stride, long rows, long columns, float *to, long width) {
    __m512i a[16], b[16];
    __mmask16 some = columns < 16 ? (__mmask16)((1 << columns) - 1) : 0xffff;
    UNROLL for (int i = 0; i < 16; i++)
        a[i] = i < rows ? _mm512_maskz_loadu_epi32(some, from + i * stride) : _mm512_setzero_si512();
    UNROLL for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    UNROLL for (int i = 0; i < 4; i++) { /* a[i + 4 j]: columns i, i + 4, … of rows 4 j to 4 j + 3 */
        __m512i low = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88), high = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
        __m512i more = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
        __m512i last = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
        b[i] = _mm512_shuffle_i32x4(low, more, 0x88);
        b[i + 8] = _mm512_shuffle_i32x4(low, more, 0xdd);
        b[i + 4] = _mm512_shuffle_i32x4(high, last, 0x88);
        b[i + 12] = _mm512_shuffle_i32x4(high, last, 0xdd);
    }
    UNROLL for (int i = 0; i < 16; i++)
        if (i < columns) _mm512_storeu_si512(to + i * width, b[i]);
}
#endif

/* to[k, n] = from[n, k], with zeros up to `width`, a multiple of LANES, in each row of the result. */
LOCAL void transposed(const float *from, long stride, long N, long K, float *to, long width) {
#if defined(__AVX512F__)
    for (long n = 0; n < width; n += 16)
        for (long k = 0; k < K; k += 16)
            turned_block(from + n * stride + k, stride, N - n, K - k, to + k * width + n, width);
    return;
#endif
    for (long n = 0; n < N; n++)
        for (long k = 0; k < K; k++) to[k * width + n] = from[n * stride + k];
    for (long k = 0; k < K && N < width; k++) memset(to + k * width + N, 0, (width - N) * sizeof(float));
}

/* --- what kernels.c does for the others ---------------------------------------------------------------------------- */

typedef struct {
    float *at;
    long batch, head, position; /* how far apart they are; features stand side by side */
} heads;

ALWAYS float *of(heads x, long b, long h, long t) { return x.at + b * x.batch + h * x.head + t * x.position; }

typedef struct {
    const uint8_t *at; /* 1 where a query may attend, or NULL: everywhere */
    long batch, head, query, key;
} mask;

/* Each is explained where it is. */
__attribute__((visibility("hidden"))) float *scratch(int which, size_t floats);
void attend(heads q, heads k, heads v, heads out, mask may, long B, long H, long group, long T, long S, long d_key,
            long d_value, float scale);
void packed_linear(const float *x, const float *panels, const float *b, float *y, long M, long N, long K, long ldy);

#endif

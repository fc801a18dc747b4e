/* Linear layers and the loss, in the precision in which vectors.h multiplies: kernels.c includes this for float32 and
 * bfloat16.c and tiles.c for pairs of bfloat16. Everything given and made is float32 in all; what differs is how a matrix is
 * laid out before it is multiplied, by `rows_of`, `columns_of` and `turned`. */

typedef struct {
    const float *at;
    long row, step; /* how far apart A(i, k) is from its neighbours */
} factor;

#if defined(PAIRS)

/* In which n numbers are summed: two at a time, and with tiles 16 times two. */
#if defined(TILES)
#define STEPS(n) (rounded_up(n, 32) / 2)
#else
#define STEPS(n) (((n) + 1) / 2)
#endif

/* The first 16 of n numbers rounded to bfloat16, with 0 for those that are not there. */
ALWAYS __m256i rounded(const float *x, long n) {
    __m512 numbers = _mm512_maskz_loadu_ps(n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1 << n) - 1) : 0, x);
    __m256i halves;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(numbers));
    return halves;
}

/* Each row of x: [M, K] in pairs of neighbours, to be summed over K: [M, STEPS(K)]. */
static const float *rows_of(const float *x, long stride, long M, long K, int which) {
    long steps = STEPS(K);
    float *to = scratch(which, rounded_up(M, ROWS) * steps);
    for (long m = 0; m < M; m++)
        for (long k = 0; k < steps; k += 8) {
            __mmask8 some = steps - k < 8 ? (__mmask8)((1 << (steps - k)) - 1) : 0xff;
            _mm256_mask_storeu_epi32(to + m * steps + k, some, rounded(x + m * stride + 2 * k, K - 2 * k));
        }
    return to;
}

/* Numbers of two rows, side by side. */
ALWAYS __m512i paired(const float *first, const float *second, long n) {
    __m512i low = _mm512_cvtepu16_epi32(rounded(first, n));
    if (second == NULL) return low;
    return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded(second, n)), 16));
}

/* Each column of x: [M, K] in pairs of neighbours, to be summed over M: [STEPS(M), K]. */
static const float *columns_of(const float *x, long stride, long M, long K, int which) {
    float *to = scratch(which, STEPS(M) * K);
    for (long m = 0; m < M; m += 2)
        for (long k = 0; k < K; k += 16) {
            const float *from = x + m * stride + k;
            __mmask16 some = K - k < 16 ? (__mmask16)((1 << (K - k)) - 1) : 0xffff;
            __m512i pairs = paired(from, m + 1 < M ? from + stride : NULL, K - k);
            _mm512_mask_storeu_epi32(to + m / 2 * K + k, some, pairs);
        }
    long made = (M + 1) / 2;
    memset(to + made * K, 0, (STEPS(M) - made) * K * sizeof(float));
    return to;
}

/* The transpose of x: [M, K], each column in pairs of neighbours, to be summed over M. */
#if defined(TILES)
static factor turned(const float *x, long stride, long M, long K, int which) {
    long apart = STEPS(M) + 16; /* so that not all rows have the same place in the cache */
    float *to = scratch(which, rounded_up(K, ROWS) * apart), pairs[16 * 16];
    for (long k = 0; k < K; k += 16)
        for (long m = 0; m < M; m += 32) {
            long there = (smaller(32, M - m) + 1) / 2;
            for (long i = 0; i < there; i++) {
                const float *from = x + (m + 2 * i) * stride + k;
                _mm512_storeu_si512(pairs + 16 * i, paired(from, m + 2 * i + 1 < M ? from + stride : NULL, K - k));
            }
            turned_block(pairs, 16, there, smaller(16, K - k), to + k * apart + m / 2, apart);
        }
    return (factor){to, apart, 1};
}
#else
static factor turned(const float *x, long stride, long M, long K, int which) {
    return (factor){columns_of(x, stride, M, K, which), 1, K};
}
#endif

#else

#define STEPS(n) (n) /* in which n numbers are summed */
ALWAYS const float *rows_of(const float *x, long stride, long M, long K, int which) {
    (void)stride, (void)M, (void)K, (void)which;
    return x;
}
#define columns_of rows_of /* they are multiplied as they lie */
ALWAYS factor turned(const float *x, long stride, long M, long K, int which) {
    (void)M, (void)K, (void)which;
    return (factor){x, 1, stride};
}

#endif

/* --- linear layers ------------------------------------------------------------------------------------------------- */

#define ROWS_AT_ONCE 96

/* W: [N, K] in the order in which a product reads it: [N / COLUMNS][K][COLUMNS], with zeros for what is not there. */
void NAMED(pack)(const float *W, float *panels, long N, long K) {
    for (long j = 0; j < N; j += COLUMNS)
        transposed(W + j * K, K, smaller(COLUMNS, N - j), K, panels + j * K, COLUMNS);
}

/* y = x Wᵀ + b: x: [M, K], W: [N, K] as `pack` leaves it, y: [M, N], with rows `ldy` apart; b may be NULL. */
void NAMED(packed_linear)(const float *x, const float *panels, const float *b, float *y, long M, long N, long K,
                          long ldy) {
    float edge[ROWS * COLUMNS];
    for (long m = 0; m < M; m += ROWS_AT_ONCE)
        for (long j = 0; j < N; j += COLUMNS)
            for (long i = m; i < smaller(M, m + ROWS_AT_ONCE); i += ROWS) {
                long rows = smaller(ROWS, smaller(M, m + ROWS_AT_ONCE) - i), columns = smaller(COLUMNS, N - j);
                float *to = y + i * ldy + j;
                if (columns == COLUMNS) {
                    const float *begin = b == NULL ? NULL : b + j; /* the same for all rows */
                    wide_tile(rows, K, x + i * K, K, 1, panels + j * K, COLUMNS, to, ldy, begin, 0);
                } else {
                    wide_tile(rows, K, x + i * K, K, 1, panels + j * K, COLUMNS, edge, COLUMNS, NULL, 0);
                    for (long r = 0; r < rows; r++)
                        for (long c = 0; c < columns; c++)
                            to[r * ldy + c] = edge[r * COLUMNS + c] + (b == NULL ? 0 : b[j + c]);
                }
            }
}

/* The same of x and W as they are. */
void NAMED(linear)(const float *x, const float *W, const float *b, float *y, long M, long N, long K) {
    float *panels = scratch(0, rounded_up(N, COLUMNS) * STEPS(K));
    begin_products();
    NAMED(pack)(rows_of(W, K, N, K, 1), panels, N, STEPS(K));
    NAMED(packed_linear)(rows_of(x, K, M, K, 1), panels, b, y, M, N, STEPS(K), N);
    end_products();
}

/* dx (+)= g W, dW = gᵀ x, db = Σ g; each may be NULL. K is a multiple of LANES. */
void NAMED(linear_backward)(const float *g, const float *x, const float *W, float *dx, float *dW, float *db, long M,
                            long N, long K, int add) {
    begin_products();
    if (dx != NULL) {
        const float *G = rows_of(g, N, M, N, 0), *columns = columns_of(W, K, N, K, 1);
        for (long m = 0; m < M; m += ROWS_AT_ONCE)
            for (long n = 0; n < STEPS(N); n += 512)
                product(smaller(ROWS_AT_ONCE, M - m), K, smaller(512, STEPS(N) - n), G + m * STEPS(N) + n, STEPS(N), 1,
                        columns + n * K, K, dx + m * K, K, add || n > 0);
    }
    if (dW != NULL) {
        factor G = turned(g, N, M, N, 0);
        const float *X = columns_of(x, K, M, K, 1);
        if (M == 0) memset(dW, 0, N * K * sizeof(float));
        for (long m = 0; m < STEPS(M); m += 256)
            product(N, K, smaller(256, STEPS(M) - m), G.at + m * G.step, G.row, G.step, X + m * K, K, dW, K, m > 0);
    }
    end_products();
    if (db != NULL) {
        memset(db, 0, N * sizeof(float));
        for (long m = 0; m < M; m++)
            for (long n = 0; n < N; n++) db[n] += g[m * N + n];
    }
}

/* --- the loss ------------------------------------------------------------------------------------------------------ */

#define LOGITS_AT_ONCE (1 << 22) /* floats */
#define POSITIONS_AT_ONCE (8 * ROWS > 128 ? 8 * ROWS : 128)
#define WORDS_AT_ONCE (240 / ROWS * ROWS)

/* Label-smoothed cross-entropy of x Wᵀ + b, and the gradients of x, W and b, without ever holding all logits.
 *
 * x: [times * N, D], W: [V, D], b: [V]; loss: [N]. D is a multiple of LANES. dx, dW and db may be NULL, all three: then
 * only the loss is computed. Where every position was seen two times, n and N + n are the same one, the loss is the
 * mean of both, and that they disagree costs as well, as R-Drop has it (attendo/training/loss.py). Logits are held
 * transposed, a row for each word and a column for each position, so that softmax over words needs no sums across a
 * register and W is read as it lies: [times, V, width]. */
void NAMED(cross_entropy)(const float *x, const float *W, const float *b, const int64_t *target, float *loss, float *dx,
                          float *dW, float *db, long N, long V, long D, float smoothing, long times, float agreement) {
    long block = smaller(POSITIONS_AT_ONCE, LOGITS_AT_ONCE / V) / times / COLUMNS * COLUMNS;
    block = block < COLUMNS ? COLUMNS : block;
    long most = times * block;
    float *logits = scratch(0, V * most), *columns = scratch(1, D * block), *numbers = scratch(2, 4 * most);
    if (dW != NULL) memset(dW, 0, V * D * sizeof(float)), memset(db, 0, V * sizeof(float));

    begin_products();
    for (long start = 0; start < N; start += block) {
        long n = smaller(block, N - start), width = rounded_up(n, COLUMNS), all_columns = times * width;
        float *largest = numbers, *total = numbers + most, *sum = numbers + 2 * most, *lost = numbers + 3 * most;
        for (long j = 0; j < all_columns; j++) largest[j] = -INFINITY, total[j] = sum[j] = lost[j] = 0;

        for (long t = 0; t < times; t++) {
            float *z = logits + t * V * width, *highest = largest + t * width, *of_all = sum + t * width;
            /* panels of COLUMNS positions: [width / COLUMNS][D][COLUMNS] */
            NAMED(pack)(rows_of(x + (t * N + start) * D, D, n, D, 3), columns, n, STEPS(D));
            for (long word = 0; word < V; word += WORDS_AT_ONCE) {
                long words = smaller(WORDS_AT_ONCE, V - word);
                const float *of_words = rows_of(W + word * D, D, words, D, 3);
                for (long j = 0; j < width; j += COLUMNS)
                    for (long i = 0; i < words; i += ROWS) {
                        long rows = smaller(ROWS, words - i);
                        float *made = z + (word + i) * width + j;
                        wide_tile(rows, STEPS(D), of_words + i * STEPS(D), STEPS(D), 1, columns + j * STEPS(D), COLUMNS,
                                  made, width, NULL, 0);
                        for (int half = 0; half < COLUMNS; half += LANES) {
                            vec high = load(highest + j + half), together = load(of_all + j + half);
                            for (long r = 0; r < rows; r++) {
                                vec logit = load(made + r * width + half) + b[word + i + r];
                                store(made + r * width + half, logit);
                                high = larger(high, logit);
                                together += logit;
                            }
                            store(highest + j + half, high);
                            store(of_all + j + half, together);
                        }
                    }
            }
            for (long i = 0; i < V; i++)
                for (long j = 0; j < width; j += LANES) {
                    vec p = exponential(load(z + i * width + j) - load(highest + j));
                    store(total + t * width + j, load(total + t * width + j) + p);
                }
        }
        float *lse = largest, *second = logits + V * width;
        for (long j = 0; j < all_columns; j++) lse[j] += logf(total[j]);
        if (times == 2) /* lost: KL(p₁ ‖ p₂) and KL(p₂ ‖ p₁), sums of p₁ d and - p₂ d with d = log p₁ - log p₂ */
            for (long i = 0; i < V; i++)
                for (long j = 0; j < width; j += LANES) {
                    vec p = load(logits + i * width + j) - load(lse + j);
                    vec q = load(second + i * width + j) - load(lse + width + j);
                    store(lost + j, load(lost + j) + exponential(p) * (p - q));
                    store(lost + width + j, load(lost + width + j) + exponential(q) * (q - p));
                }
        for (long i = 0; i < n; i++) {
            float cost = 0;
            for (long t = 0; t < times; t++) {
                float chosen = logits[(t * V + target[start + i]) * width + i];
                cost += lse[t * width + i] - (1 - smoothing) * chosen - smoothing * sum[t * width + i] / V;
                cost += times * agreement / 4 * lost[t * width + i];
            }
            loss[start + i] = cost / times;
        }
        if (dW == NULL) continue;

        /* G = (p - smoothing / V) / times, less (1 - smoothing) / times at the target; with two times also
         * α/4 (p₁ (d - KL(p₁ ‖ p₂)) + p₁ - p₂), and so the other way round. 0 where there is no position. */
        float *real = total, share = 1.0f / times, more = agreement / 4;
        for (long j = 0; j < width; j++) real[j] = j < n ? 1 : 0;
        const float *positions[2];
        for (long t = 0; t < times; t++) positions[t] = columns_of(x + (t * N + start) * D, D, n, D, 5 + t);
        for (long word = 0; word < V; word += WORDS_AT_ONCE) {
            long words = smaller(WORDS_AT_ONCE, V - word);
            for (long i = word; i < word + words; i++) {
                vec over_positions = {0};
                for (long j = 0; j < width; j += LANES) {
                    float *one = logits + i * width + j, *other = second + i * width + j;
                    vec log_p = load(one) - load(lse + j), p = exponential(log_p), g = (p - smoothing / V) * share;
                    if (times == 2) {
                        vec log_q = load(other) - load(lse + width + j), q = exponential(log_q), d = log_p - log_q;
                        vec h = (q - smoothing / V) * share + more * (q * (-d - load(lost + width + j)) + q - p);
                        g += more * (p * (d - load(lost + j)) + p - q);
                        store(other, h * load(real + j));
                        over_positions += h * load(real + j);
                    }
                    store(one, g * load(real + j));
                    over_positions += g * load(real + j);
                }
                db[i] += sum_of(over_positions);
            }
            for (long i = 0; i < n; i++) {
                long word_of = target[start + i];
                if (word_of < word || word_of >= word + words) continue;
                for (long t = 0; t < times; t++) logits[(t * V + word_of) * width + i] -= (1 - smoothing) * share;
                db[word_of] -= 1 - smoothing;
            }
            const float *of_words = columns_of(W + word * D, D, words, D, 4);
            for (long t = 0; t < times; t++) {
                const float *G = logits + (t * V + word) * width;
                product(words, D, STEPS(n), rows_of(G, width, words, width, 3), STEPS(width), 1, positions[t], D,
                        dW + word * D, D, 1);
                factor of_positions = turned(G, width, words, width, 3);
                product(n, D, STEPS(words), of_positions.at, of_positions.row, of_positions.step, of_words, D,
                        dx + (t * N + start) * D, D, word > 0);
            }
        }
    }
    end_products();
}

/* What takes most of a training step on a CPU, for one thread and float32: attention, dropout, linear layers and the loss
 * (layers.h, which bfloat16.c includes as well); and of a step of decoding.
 *
 * Every function here has a slow twin in torch, which serves where this library was not built, and a test that their
 * numbers agree. It is compiled once for each instruction set (see pyproject.toml); attendo/native/__init__.py chooses.
 */
#include <pthread.h>

#include "vectors.h"

/* Of the functions and what they take: to be raised with every change, and VERSION in attendo/native/__init__.py with it. */
long version(void) { return 3; }

/* How many floats the widest register has that this processor, and its system, can use. */
long widest(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))) return 4;
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
    return wide ? 16 : 8;
#else
    return 4;
#endif
}

#define SCRATCHES 8

/* Memory for intermediate results, which every thread keeps from call to call, and which ends with it. */
typedef struct {
    float *at[SCRATCHES];
    size_t floats[SCRATCHES];
} memory;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(void *kept) {
    for (int i = 0; i < SCRATCHES; i++) free(((memory *)kept)->at[i]);
    free(kept);
}

static void make_key(void) { pthread_key_create(&key, forget); }

float *scratch(int which, size_t floats) {
    pthread_once(&once, make_key);
    memory *kept = pthread_getspecific(key);
    if (kept == NULL) pthread_setspecific(key, kept = calloc(1, sizeof(memory)));
    if (kept->floats[which] < floats) {
        free(kept->at[which]);
        kept->at[which] = aligned_alloc(64, rounded_up(floats * sizeof(float), 64));
        kept->floats[which] = kept->at[which] == NULL ? 0 : floats;
    }
    return kept->at[which];
}

/* --- attention ----------------------------------------------------------------------------------------------------- */

#define QUERIES_AT_ONCE 48 /* a multiple of LANES */

/* 0 where query t may attend to key s and -inf elsewhere, [S, width]: made from a mask, and kept while that is `of`. */
typedef struct {
    float *at;
    const uint8_t *of;
    long width;
} seen;

/* P[s, t] = softmax_s(scale q_t · k_s) where the mask allows, else 0: a row for each key and a column for each of T
 * queries, so that softmax needs no sums across a register. queries: [d_key, width]. */
static void probabilities(const float *queries, const float *K, long T, long S, long width, long d_key, float scale,
                          const uint8_t *allowed, mask may, seen *hidden, float *P) {
    product(S, width, d_key, K, d_key, 1, queries, width, P, width, 0);
    if (allowed != NULL && (allowed != hidden->of || width != hidden->width)) {
        for (long s = 0; s < S; s++)
            for (long t = 0; t < T; t++)
                hidden->at[s * width + t] = allowed[t * may.query + s * may.key] ? 0 : -INFINITY;
        hidden->of = allowed, hidden->width = width;
    }
    for (long t = 0; t < width; t += LANES) {
        vec most = all(-1e30f), sum = {0};
        for (long s = 0; s < S; s++) {
            vec x = load(P + s * width + t) * scale;
            if (allowed != NULL) x += load(hidden->at + s * width + t);
            store(P + s * width + t, x);
            most = larger(most, x);
        }
        for (long s = 0; s < S; s++) {
            vec p = exponential(load(P + s * width + t) - most);
            store(P + s * width + t, p);
            sum += p;
        }
        vec share = 1 / larger(sum, all(1e-30f)); /* 0 where nothing may be attended to */
        for (long s = 0; s < S; s++) store(P + s * width + t, load(P + s * width + t) * share);
    }
}

ALWAYS const uint8_t *allowed_for(mask may, long b, long h, long t) {
    return may.at == NULL ? NULL : may.at + b * may.batch + h * may.head + t * may.query;
}

/* Rows that may be far apart, one after the other: at some distances all would have the same place in the cache. */
static void gathered(const float *from, long stride, long N, long K, float *to) {
    for (long n = 0; n < N; n++) memcpy(to + n * K, from + n * stride, K * sizeof(float));
}

/* out = softmax(scale Q Kᵀ) V for each sentence and head. `group` heads of queries share one of keys and values.
 * Sizes: B sentences, H heads, T queries, S keys; d_value is a multiple of LANES. */
void attend(heads q, heads k, heads v, heads out, mask may, long B, long H, long group, long T, long S, long d_key,
            long d_value, float scale) {
    long most = QUERIES_AT_ONCE;
    float *queries = scratch(0, d_key * most), *P = scratch(1, S * most);
    float *K = scratch(2, S * (d_key + d_value)), *V = K + S * d_key;
    seen hidden = {scratch(3, S * most), NULL, 0};
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++) {
            if (h % group == 0) {
                gathered(of(k, b, h / group, 0), k.position, S, d_key, K);
                gathered(of(v, b, h / group, 0), v.position, S, d_value, V);
            }
            for (long t = 0; t < T; t += most) {
                long n = smaller(most, T - t), width = rounded_up(n, LANES);
                transposed(of(q, b, h, t), q.position, n, d_key, queries, width);
                probabilities(queries, K, n, S, width, d_key, scale, allowed_for(may, b, h, t), may, &hidden, P);
                product(n, d_value, S, P, 1, width, V, d_value, of(out, b, h, t), out.position, 0);
            }
        }
}

/* The same, for a few queries of each sentence, as a step of decoding has them: one after the other.
 * d_key and d_value are multiples of LANES. */
void attend_few(heads q, heads k, heads v, heads out, mask may, long B, long H, long group, long T, long S, long d_key,
                long d_value, float scale) {
    long width = rounded_up(S, LANES);
    float *p = scratch(0, width);
    for (long s = S; s < width; s++) p[s] = -INFINITY;
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++)
            for (long t = 0; t < T; t++) {
                const float *query = of(q, b, h, t), *key = of(k, b, h / group, 0), *value = of(v, b, h / group, 0);
                const uint8_t *allowed = allowed_for(may, b, h, t);
                for (long s = 0; s < S; s++, key += k.position) {
                    vec products = {0};
                    for (long i = 0; i < d_key; i += LANES) products += load(query + i) * load(key + i);
                    p[s] = allowed == NULL || allowed[s * may.key] ? sum_of(products) * scale : -INFINITY;
                }
                vec largest = all(-1e30f), total = {0};
                for (long s = 0; s < width; s += LANES) largest = larger(largest, load(p + s));
                float most = largest_of_all(largest);
                for (long s = 0; s < width; s += LANES) {
                    vec e = exponential(load(p + s) - most);
                    total += e;
                    store(p + s, e);
                }
                float sum = sum_of(total), share = sum > 0 ? 1 / sum : 0; /* 0 where nothing may be attended to */
                for (long i = 0; i < d_value; i += LANES) {
                    vec mean = {0};
                    for (long s = 0; s < S; s++) mean += p[s] * load(value + s * v.position + i);
                    store(of(out, b, h, t) + i, mean * share);
                }
                for (long s = S; s < width; s++) p[s] = -INFINITY;
            }
}

/* The gradients of q, k and v, from that of out. With P computed anew and G that of out:
 *     dV = Pᵀ G,   dP = G Vᵀ,   dS = P (dP - Σ_s P dP) scale,   dQ = dS K,   dK = dSᵀ Q.
 * d_key and d_value are multiples of LANES. */
void attend_backward(heads q, heads k, heads v, heads grad, heads dq, heads dk, heads dv, mask may, long B, long H,
                     long group, long T, long S, long d_key, long d_value, float scale) {
    long most = QUERIES_AT_ONCE, both = d_key + d_value;
    float *queries = scratch(0, 2 * both * most), *gradients = queries + d_key * most;
    float *Q = gradients + d_value * most, *G = Q + d_key * most;
    float *P = scratch(1, 2 * S * most), *D = P + S * most;
    float *K = scratch(2, S * both), *V = K + S * d_key;
    seen hidden = {scratch(3, S * most), NULL, 0};
    for (long b = 0; b < B; b++)
        for (long h = 0; h < H; h++) {
            long g = h / group;
            if (h % group == 0) {
                gathered(of(k, b, g, 0), k.position, S, d_key, K);
                gathered(of(v, b, g, 0), v.position, S, d_value, V);
            }
            for (long t = 0; t < T; t += most) {
                long n = smaller(most, T - t), width = rounded_up(n, LANES);
                int add = h % group != 0 || t > 0;
                gathered(of(q, b, h, t), q.position, n, d_key, Q);
                gathered(of(grad, b, h, t), grad.position, n, d_value, G);
                transposed(Q, d_key, n, d_key, queries, width);
                transposed(G, d_value, n, d_value, gradients, width);
                probabilities(queries, K, n, S, width, d_key, scale, allowed_for(may, b, h, t), may, &hidden, P);
                product(S, d_value, n, P, width, 1, G, d_value, of(dv, b, g, 0), dv.position, add);
                product(S, width, d_value, V, d_value, 1, gradients, width, D, width, 0);
                for (long i = 0; i < width; i += LANES) {
                    vec mean = {0};
                    for (long s = 0; s < S; s++) mean += load(P + s * width + i) * load(D + s * width + i);
                    for (long s = 0; s < S; s++) {
                        vec d = load(D + s * width + i);
                        store(D + s * width + i, load(P + s * width + i) * (d - mean) * scale);
                    }
                }
                product(n, d_key, S, D, 1, width, K, d_key, of(dq, b, h, t), dq.position, 0);
                product(S, d_key, n, D, width, 1, Q, d_key, of(dk, b, g, 0), dk.position, add);
            }
        }
}

/* --- dropout ------------------------------------------------------------------------------------------------------- */

/* out = x + y * keep * scale; without x: y * keep * scale. keep is 0 or 1. */
void add_dropped(const float *x, const float *y, const uint8_t *keep, float scale, float *out, long n) {
    if (x == NULL)
        for (long i = 0; i < n; i++) out[i] = y[i] * (keep[i] * scale);
    else
        for (long i = 0; i < n; i++) out[i] = x[i] + y[i] * (keep[i] * scale);
}

#define NAMED(function) function
#include "layers.h"

/* Translating with a Transformer: encoder, decoder with what it remembers, greedy and beam search, for one thread, in
 * float32 or in 8 bits. The slow twins are attendo/models/transformer.py and attendo/decoding/beam.py, whose rules are followed to the
 * letter; attendo/engines/native_engine.py calls it.
 *
 * Matrices may be rounded to 8 bits, and so is then what they are multiplied with, each row by itself.
 *
 * Nothing is padded: the tokens of all sentences stand one after the other, and a sentence that is done leaves. No row is
 * ever mixed with another, so that a translation is the same, bit for bit, whatever else is translated.
 *
 * Sizes: B sentences, R rows (live prefixes of all sentences), D d_model, H heads, K numbers in a head, which are a multiple
 * of LANES (heads are filled up with zeros), A = H * K, F d_ff, V vocabulary.
 */
#include "vectors.h"

/* --- the model ----------------------------------------------------------------------------------------------------- */

typedef struct {
    const float *panels, *bias; /* as `pack` leaves them; NULL: there is no bias, or no matrix at all */
    long out, in;
    /* or rounded to 8 bits, as `pack_bytes` leaves it; then there is a bias, all in whole panels */
    const int8_t *bytes;
    const float *units;
    const int32_t *sums;
} matrix;

typedef struct {
    const float *gain, *shift; /* without shift it is RMSNorm, without gain there is none */
} norm;

typedef struct {
    norm first, second; /* the second is sandwich-norm's */
} norms;

typedef struct {
    norms attention, to_memory, feed_forward;
    matrix query, keys_values, joined;                      /* self-attention */
    matrix memory_query, memory_keys_values, memory_joined; /* a decoder's to the memory */
    matrix inner, gate, outer;
} layer;

typedef struct {
    const float *words, *places; /* the vectors of ids [V, D], and of positions */
    norm embedded, last;
    const layer *layers;
    long n_layers;
} stack;

enum { POST, PRE, SANDWICH };               /* where a norm is */
enum { RELU, GELU_TANH, SILU, GELU };       /* activations, in CTranslate2's order */
enum { FIRST, EXACT, HEURISTIC };           /* when a beam search ends */
enum { NOT_NUMBERS = -1, NO_MEMORY = -2 };  /* what can go wrong */

typedef struct {
    stack encoder, decoder;
    matrix logits;
    long D, H, K, F;
    long norm_place, activation;
    float epsilon, scale, output_scale; /* scale: of products of queries and keys */
} model;

/* (x - mean) / √(variance + ε) * gain + shift, or without the mean, of each row. */
static void normalised(const model *m, norm n, const float *x, float *y, long rows) {
    long D = m->D, whole = D / LANES * LANES;
    for (long r = 0; r < rows; r++, x += D, y += D) {
        float mean = 0, square = 0;
        if (n.shift != NULL) {
            vec sum = {0};
            for (long i = 0; i < whole; i += LANES) sum += load(x + i);
            mean = sum_of(sum);
            for (long i = whole; i < D; i++) mean += x[i];
            mean /= D;
        }
        vec squares = {0};
        for (long i = 0; i < whole; i += LANES) {
            vec d = load(x + i) - mean;
            squares += d * d;
        }
        square = sum_of(squares);
        for (long i = whole; i < D; i++) square += (x[i] - mean) * (x[i] - mean);
        float share = 1 / sqrtf(square / D + m->epsilon);
        for (long i = 0; i < whole; i += LANES) {
            vec z = (load(x + i) - mean) * share * load(n.gain + i);
            if (n.shift != NULL) z += load(n.shift + i);
            store(y + i, z);
        }
        for (long i = whole; i < D; i++)
            y[i] = (x[i] - mean) * share * n.gain[i] + (n.shift == NULL ? 0 : n.shift[i]);
    }
}

/* What a sublayer reads of x; `room` is where it is put, if it is something else than x. */
static const float *entering(const model *m, const norms *n, const float *x, float *room, long rows) {
    if (m->norm_place == POST) return x;
    normalised(m, n->first, x, room, rows);
    return room;
}

/* x <- x + y, of a sublayer's y, with the norms that are not in front of it. */
static void leaving(const model *m, const norms *n, float *x, float *y, long rows) {
    if (m->norm_place == SANDWICH) normalised(m, n->second, y, y, rows);
    for (long i = 0; i < rows * m->D; i++) x[i] += y[i];
    if (m->norm_place == POST) normalised(m, n->first, x, x, rows);
}

static void embedded(const model *m, const stack *s, int32_t id, long place, float *x) {
    const float *word = s->words + id * m->D;
    for (long i = 0; i < m->D; i++) x[i] = word[i] + s->places[place * m->D + i];
    if (s->embedded.gain != NULL) normalised(m, s->embedded, x, x, 1);
}

ALWAYS vec activated(vec x, long kind) {
    vec z = x;
    switch (kind) {
    case RELU: return larger((vec){0}, x); /* what is no number stays so */
    case GELU_TANH: /* x (1 + tanh u) / 2 = x / (1 + e^-2u) */
        z = 2 * 0.7978845608f * (x + 0.044715f * x * x * x); /* fallthrough */
    case SILU: return x / (1 + exponential(larger(all(-87), where(-z < all(87), -z, all(87)))));
    default:
        for (int i = 0; i < LANES; i++) z[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
        return z;
    }
}

ALWAYS void activate_all(float *inner, const float *gate, long n, long kind) {
    for (long i = 0; i < n; i += LANES) { /* there is room for whole vectors */
        vec x = activated(load(inner + i), kind);
        if (gate != NULL) x *= load(gate + i);
        store(inner + i, x);
    }
}

/* p[s] <- e^(p[s] - most) for s < n, 0 from there to `width`; gives 1 / Σ. */
static float softened(float *p, long n, long width) {
    for (long s = n; s < width; s++) p[s] = -INFINITY;
    vec largest = load(p), total = {0};
    for (long s = LANES; s < width; s += LANES) largest = larger(largest, load(p + s));
    float most = largest_of_all(largest);
    for (long s = 0; s < width; s += LANES) {
        vec e = exponential(load(p + s) - most);
        total += e;
        store(p + s, e);
    }
    return 1 / sum_of(total);
}

/* --- what a search remembers --------------------------------------------------------------------------------------- */

typedef struct {
    const int32_t *sources; /* the ids of all, each with its EOS */
    const int64_t *starts;  /* [B + 1]: where each begins */
    const int32_t *prefixes;
    const int64_t *prefix_starts; /* [B + 1] */
    const int64_t *limits;        /* [B]: how many ids, without EOS, a translation may have */
    const double *penalties;      /* what a log probability of so many ids, with EOS, is divided by */
    const int32_t *forbidden;
    long n_forbidden, B, beam, n_best, stopping;
    long n_certain; /* so many ids of every prefix have log p = 0 */
    long scored;    /* whether log probabilities are wanted; a beam needs them in any case */
    long bos, eos;
} request;

typedef struct {
    double score;
    long node;
} ended;

typedef struct {
    long number, first, n; /* its place among all, its rows */
    long n_ended;          /* in all */
} sentence;

typedef struct {
    long parent;
    int32_t id;
    float log_prob;
} node;

typedef struct {
    double log_prob;
    float of_id;
    int32_t id;
    long row;
} candidate;

typedef struct {
    int32_t *ids;
    long *nodes;
    int64_t *of; /* the place of a row's sentence among all */
    double *log_probs;
    int32_t *slots; /* [R, longest]: where the keys and values of a prefix's ids are */
} rows;

typedef struct {
    const model *m;
    request q;
    long length, longest, R, V, n_live, n_kept, n_ids; /* n_ids: of a row that are looked at */
    sentence *live;
    ended *best; /* [B, n_kept] */
    rows now, next;
    /* the tree of prefixes */
    node *tree;
    long n_nodes, room;
    /* keys and values: of the past, for each length all layers with [rows then, 2 A]; and of the memory */
    float **past;
    int64_t *rows_then;
    float *memory_keys, *memory_values; /* for each layer; of each sentence [H, K, S'], and [H, S, K] */
    int64_t *memory_starts;             /* [B + 1]: positions, each sentence's rounded up */
    long n_memory;
    /* room for a step */
    float *x, *entered, *query, *attended, *y, *inner, *gate, *logits, *scores, *shares;
    const float **seen;
    float *values; /* [R, n_ids] */
    int32_t *choices;
    long *n_choices;
    candidate *candidates; /* [2 beam], and [beam] that go on */
    /* rows rounded to 8 bits, and what 1 is worth in each */
    uint8_t *bytes;
    float *units;
} search;

#define ROWS_OF_LOGITS 48 /* of which all logits are held at once */

static void *room_for(size_t bytes) { return aligned_alloc(64, rounded_up(bytes + 256, 64)); }

/* --- linear layers ------------------------------------------------------------------------------------------------- */

#define ROWS_AT_ONCE (8 * ROWS)

#if defined(__AVX512F__)
/* Whether this processor multiplies bytes. */
long has_bytes(void) { return __builtin_cpu_supports("avx512vnni") != 0; }

/* Each of n rows of x in bytes from 1 to 255, 128 being 0, and what 1 is worth in it; filled up to a multiple of 4. */
static void rounded(search *s, const float *x, long n, long K) {
    long stride = rounded_up(K, 4);
    for (long r = 0; r < n; r++, x += K) {
        uint8_t *to = s->bytes + r * stride;
        __m512 largest = _mm512_setzero_ps(), wrong = _mm512_setzero_ps(); /* 0 as long as all are numbers */
        for (long k = 0; k < K; k += 16) {
            __mmask16 some = K - k >= 16 ? 0xffff : (__mmask16)((1 << (K - k)) - 1);
            __m512 part = _mm512_maskz_loadu_ps(some, x + k);
            largest = _mm512_max_ps(largest, _mm512_abs_ps(part));
            wrong += part - part;
        }
        float most = _mm512_reduce_max_ps(largest), scale = most > 0 ? 127 / most : 0;
        s->units[r] = most / 127 + _mm512_reduce_add_ps(wrong);
        for (long k = 0; k < stride; k += 16) {
            __mmask16 here = stride - k >= 16 ? 0xffff : (__mmask16)((1 << (stride - k)) - 1);
            __mmask16 some = K - k >= 16 ? 0xffff : (__mmask16)((1 << (K - k)) - 1);
            __m512i q = _mm512_cvtps_epi32(_mm512_maskz_loadu_ps(some, x + k) * scale);
            _mm512_mask_cvtepi32_storeu_epi8(to + k, here, _mm512_add_epi32(q, _mm512_set1_epi32(128)));
        }
    }
}

/* c + the sums of four products of bytes each, of a without and of b with a sign (AVX512-VNNI). As the compiler's function
 * for it, GCC 12 would keep c in memory. */
ALWAYS ivec added_products(ivec c, ivec a, ivec b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}

typedef int32_t four __attribute__((may_alias)); /* bytes; a row has a multiple of them */

/* A tile of x Wᵀ + b: `rows` of s->bytes from the i-th, and the COLUMNS of W from the j-th. */
ALWAYS void byte_tile_of(const int rows, const search *s, const matrix *m, long i, long j, float *out, long ldo) {
    long K = rounded_up(m->in, 4);
    const int8_t *B = m->bytes + j * K;
    const uint8_t *A = s->bytes + i * K;
    ivec c[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) c[r][0] = c[r][1] = (ivec){0};
    for (long k = 0; k < K; k += 4, B += 4 * COLUMNS) {
        ivec b0 = *(const ivec *)B, b1 = *(const ivec *)(B + 4 * LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            ivec a = *(const four *)(A + r * K + k) - (ivec){0};
            c[r][0] = added_products(c[r][0], a, b0);
            c[r][1] = added_products(c[r][1], a, b1);
        }
    }
    ivec sums0 = *(const ivec *)(m->sums + j), sums1 = *(const ivec *)(m->sums + j + LANES);
    UNROLL for (int r = 0; r < rows; r++) {
        vec x0 = __builtin_convertvector(c[r][0] - sums0, vec) * s->units[i + r];
        vec x1 = __builtin_convertvector(c[r][1] - sums1, vec) * s->units[i + r];
        store(out + r * ldo, x0 * load(m->units + j) + load(m->bias + j));
        store(out + r * ldo + LANES, x1 * load(m->units + j + LANES) + load(m->bias + j + LANES));
    }
}

static void byte_tile(long rows, const search *s, const matrix *m, long i, long j, float *out, long ldo) {
    switch (rows) {
#define BYTE_CASE(n) \
    case n: byte_tile_of(n, s, m, i, j, out, ldo); return;
        BYTE_CASE(1) BYTE_CASE(2) BYTE_CASE(3) BYTE_CASE(4) BYTE_CASE(5) BYTE_CASE(6)
        BYTE_CASE(7) BYTE_CASE(8) BYTE_CASE(9) BYTE_CASE(10) BYTE_CASE(11) BYTE_CASE(12)
    }
}
#else
long has_bytes(void) { return 0; }
static void rounded(search *s, const float *x, long n, long K) { (void)s, (void)x, (void)n, (void)K; }
static void byte_tile(long rows, const search *s, const matrix *m, long i, long j, float *out, long ldo) {
    (void)rows, (void)s, (void)m, (void)i, (void)j, (void)out, (void)ldo;
}
#endif

/* W: [N, K] rounded to bytes, four of a row side by side: [N / COLUMNS][K / 4][COLUMNS][4]. units: what 1 is worth in each
 * row; sums: 128 times the sum of its bytes, which is what bytes around 128 bring too much. */
void pack_bytes(const float *W, int8_t *bytes, float *units, int32_t *sums, long N, long K) {
    long width = rounded_up(K, 4), all_of_them = rounded_up(N, COLUMNS);
    memset(bytes, 0, all_of_them * width);
    for (long n = 0; n < all_of_them; n++) {
        float most = 0;
        units[n] = 0, sums[n] = 0;
        if (n >= N) continue;
        for (long k = 0; k < K; k++) most = fabsf(W[n * K + k]) > most ? fabsf(W[n * K + k]) : most;
        for (long k = 0; k < K && isfinite(most); k++)
            if (!isfinite(W[n * K + k])) most = NAN;
        if (most == 0) continue;
        units[n] = most / 127;
        if (!isfinite(most)) continue;
        for (long k = 0; k < K; k++) {
            int8_t byte = (int8_t)lrintf(W[n * K + k] * (127 / most));
            bytes[n / COLUMNS * COLUMNS * width + k / 4 * COLUMNS * 4 + n % COLUMNS * 4 + k % 4] = byte;
            sums[n] += 128 * byte;
        }
    }
}

/* y = x Wᵀ + b: x: [rows, in], y: [rows, out], with rows `ldy` apart. */
static void apply_apart(search *s, matrix m, const float *x, float *y, long rows, long ldy) {
    if (m.bytes == NULL) {
        packed_linear(x, m.panels, m.bias, y, rows, m.out, m.in, ldy);
        return;
    }
    float edge[ROWS * COLUMNS];
    for (long first = 0; first < rows; first += ROWS_AT_ONCE) {
        long n = smaller(ROWS_AT_ONCE, rows - first);
        rounded(s, x + first * m.in, n, m.in);
        for (long j = 0; j < m.out; j += COLUMNS)
            for (long i = 0; i < n; i += ROWS) {
                long some = smaller(ROWS, n - i), columns = smaller(COLUMNS, m.out - j);
                float *to = y + (first + i) * ldy + j;
                byte_tile(some, s, &m, i, j, columns < COLUMNS ? edge : to, columns < COLUMNS ? COLUMNS : ldy);
                for (long r = 0; r < some && columns < COLUMNS; r++)
                    memcpy(to + r * ldy, edge + r * COLUMNS, columns * sizeof(float));
            }
    }
}

ALWAYS void apply(search *s, matrix m, const float *x, float *y, long rows) { apply_apart(s, m, x, y, rows, m.out); }

static void feed_forward(search *s, const layer *l, const float *x, float *inner, float *gate, float *y, long rows) {
    const model *m = s->m;
    apply(s, l->inner, x, inner, rows);
    if (l->gate.panels == NULL && l->gate.bytes == NULL) gate = NULL;
    if (gate != NULL) apply(s, l->gate, x, gate, rows);
    switch (m->activation) {
    case RELU: activate_all(inner, gate, rows * m->F, RELU); break;
    case GELU_TANH: activate_all(inner, gate, rows * m->F, GELU_TANH); break;
    case SILU: activate_all(inner, gate, rows * m->F, SILU); break;
    default: activate_all(inner, gate, rows * m->F, GELU);
    }
    apply(s, l->outer, inner, y, rows);
}

/* --- encoder ------------------------------------------------------------------------------------------------------- */

/* The keys and values that every layer of the decoder has of the memory. */
static int encode(search *s) {
    const model *m = s->m;
    long B = s->q.B, N = s->q.starts[B], D = m->D, A = m->H * m->K, S = s->n_memory;
    float *x = room_for(N * D * 4), *entered_room = room_for(N * D * 4), *y = room_for(N * D * 4);
    float *query = room_for(N * A * 4), *keys_values = room_for(N * 2 * A * 4), *attended = room_for(N * A * 4);
    float *inner = room_for(N * m->F * 4), *gate = room_for(N * m->F * 4);
    int whole = x && entered_room && y && query && keys_values && attended && inner && gate;
    if (!whole) goto end;
    for (long b = 0; b < B; b++)
        for (long i = s->q.starts[b]; i < s->q.starts[b + 1]; i++)
            embedded(m, &m->encoder, s->q.sources[i], i - s->q.starts[b], x + i * D);
    for (const layer *l = m->encoder.layers; l < m->encoder.layers + m->encoder.n_layers; l++) {
        const float *read = entering(m, &l->attention, x, entered_room, N);
        apply(s, l->query, read, query, N);
        apply(s, l->keys_values, read, keys_values, N);
        for (long b = 0; b < B; b++) {
            long at = s->q.starts[b], T = s->q.starts[b + 1] - at;
            heads q = {query + at * A, 0, m->K, A}, out = {attended + at * A, 0, m->K, A};
            heads k = {keys_values + at * 2 * A, 0, m->K, 2 * A}, v = {keys_values + at * 2 * A + A, 0, m->K, 2 * A};
            attend(q, k, v, out, (mask){0}, 1, m->H, 1, T, T, m->K, m->K, m->scale);
        }
        apply(s, l->joined, attended, y, N);
        leaving(m, &l->attention, x, y, N);
        read = entering(m, &l->feed_forward, x, entered_room, N);
        feed_forward(s, l, read, inner, gate, y, N);
        leaving(m, &l->feed_forward, x, y, N);
    }
    if (m->encoder.last.gain != NULL) normalised(m, m->encoder.last, x, x, N);
    for (long number = 0; number < m->decoder.n_layers; number++) {
        apply(s, m->decoder.layers[number].memory_keys_values, x, keys_values, N);
        float *keys = s->memory_keys + number * S * A, *values = s->memory_values + number * N * A;
        for (long b = 0; b < B; b++) {
            long at = s->q.starts[b], n = s->q.starts[b + 1] - at, width = s->memory_starts[b + 1] - s->memory_starts[b];
            transposed(keys_values + at * 2 * A, 2 * A, n, A, keys + s->memory_starts[b] * A, width);
            for (long h = 0; h < m->H; h++)
                for (long t = at; t < at + n; t++, values += m->K)
                    memcpy(values, keys_values + t * 2 * A + A + h * m->K, m->K * sizeof(float));
        }
    }
end:
    free(x), free(entered_room), free(y), free(query), free(keys_values), free(attended), free(inner), free(gate);
    return whole;
}

/* --- decoder ------------------------------------------------------------------------------------------------------- */

/* Row r's attention to its past, this position included; a layer by its number. What a position has of all heads is read at
 * once: it comes from far away. */
static void attend_to_past(search *s, long number, long r) {
    const model *m = s->m;
    long A = m->H * m->K, n = s->length + 1, width = rounded_up(n, LANES);
    const int32_t *slots = s->now.slots + r * s->longest;
    const float *query = s->query + r * A;
    float *out = s->attended + r * A;
    for (long t = 0; t < n; t++) {
        const float *keys = s->seen[t] = s->past[t] + (number * s->rows_then[t] + slots[t]) * 2 * A;
        for (long i = 0; i < A; i += 16) __builtin_prefetch(keys + A + i);
        for (long h = 0; h < m->H; h++) {
            vec products = {0};
            for (long i = h * m->K; i < (h + 1) * m->K; i += LANES) products += load(query + i) * load(keys + i);
            s->scores[h * width + t] = sum_of(products) * m->scale;
        }
    }
    for (long h = 0; h < m->H; h++) s->shares[h] = softened(s->scores + h * width, n, width);
    memset(out, 0, A * sizeof(float));
    for (long t = 0; t < n; t++)
        for (long h = 0; h < m->H; h++) {
            float p = s->scores[h * width + t] * s->shares[h];
            for (long i = h * m->K; i < (h + 1) * m->K; i += LANES)
                store(out + i, load(out + i) + p * load(s->seen[t] + A + i));
        }
}

/* Row r's attention to its sentence's memory. */
static void attend_to_memory(search *s, long number, long r) {
    const model *m = s->m;
    long A = m->H * m->K, b = s->now.of[r], at = s->q.starts[b], n = s->q.starts[b + 1] - at;
    long width = s->memory_starts[b + 1] - s->memory_starts[b];
    const float *keys = s->memory_keys + (number * s->n_memory + s->memory_starts[b]) * A;
    const float *values = s->memory_values + (number * s->q.starts[s->q.B] + at) * A;
    for (long h = 0; h < m->H; h++, keys += m->K * width, values += n * m->K) {
        const float *query = s->query + r * A + h * m->K;
        float *p = s->scores, *out = s->attended + r * A + h * m->K;
        for (long j = 0; j < width; j += LANES) {
            vec even = {0}, odd = {0}; /* two sums, since one would wait for itself */
            for (long i = 0; i < m->K; i += 2) {
                even += query[i] * load(keys + i * width + j);
                odd += query[i + 1] * load(keys + (i + 1) * width + j);
            }
            store(p + j, (even + odd) * m->scale);
        }
        float share = softened(p, n, width);
        for (long i = 0; i < m->K; i += LANES) {
            vec mean = {0};
            for (long t = 0; t < n; t++) mean += p[t] * load(values + t * m->K + i);
            store(out + i, mean * share);
        }
    }
}

/* The vectors of all rows after the last layer, in x. Their keys and values go into the last of the past. */
static void decode(search *s) {
    const model *m = s->m;
    long R = s->R, A = m->H * m->K;
    float *past = s->past[s->length];
    s->rows_then[s->length] = R;
    for (long r = 0; r < R; r++) {
        s->now.slots[r * s->longest + s->length] = (int32_t)r;
        embedded(m, &m->decoder, s->now.ids[r], s->length, s->x + r * m->D);
    }
    for (long number = 0; number < m->decoder.n_layers; number++) {
        const layer *l = m->decoder.layers + number;
        const float *read = entering(m, &l->attention, s->x, s->entered, R);
        apply(s, l->query, read, s->query, R);
        apply(s, l->keys_values, read, past + number * R * 2 * A, R);
        for (long r = 0; r < R; r++) attend_to_past(s, number, r);
        apply(s, l->joined, s->attended, s->y, R);
        leaving(m, &l->attention, s->x, s->y, R);

        read = entering(m, &l->to_memory, s->x, s->entered, R);
        apply(s, l->memory_query, read, s->query, R);
        for (long r = 0; r < R; r++) attend_to_memory(s, number, r);
        apply(s, l->memory_joined, s->attended, s->y, R);
        leaving(m, &l->to_memory, s->x, s->y, R);

        read = entering(m, &l->feed_forward, s->x, s->entered, R);
        feed_forward(s, l, read, s->inner, s->gate, s->y, R);
        leaving(m, &l->feed_forward, s->x, s->y, R);
    }
    if (m->decoder.last.gain != NULL) normalised(m, m->decoder.last, s->x, s->x, R);
    if (m->output_scale != 1)
        for (long i = 0; i < R * m->D; i++) s->x[i] *= m->output_scale;
}

/* Room for a step of so many rows. */
static int has_room(search *s, long rows) {
    const model *m = s->m;
    long A = m->H * m->K, longest_source = 0, widest_row = A > m->F ? A : m->F;
    for (long b = 0; b < s->q.B; b++)
        longest_source = s->q.starts[b + 1] - s->q.starts[b] > longest_source ? s->q.starts[b + 1] - s->q.starts[b]
                                                                               : longest_source;
    long n_seen = longest_source > s->longest ? longest_source : s->longest;
    s->x = room_for(rows * m->D * 4), s->entered = room_for(rows * m->D * 4), s->y = room_for(rows * m->D * 4);
    s->query = room_for(rows * A * 4), s->attended = room_for(rows * A * 4);
    s->inner = room_for(rows * m->F * 4), s->gate = room_for(rows * m->F * 4);
    s->scores = room_for(m->H * rounded_up(n_seen, LANES) * 4), s->shares = room_for(m->H * 4);
    s->seen = room_for(s->longest * sizeof(float *));
    s->bytes = room_for(ROWS_AT_ONCE * rounded_up(widest_row > m->D ? widest_row : m->D, 4));
    s->units = room_for(ROWS_AT_ONCE * 4);
    return s->x && s->entered && s->y && s->query && s->attended && s->inner && s->gate && s->scores && s->shares &&
           s->seen && s->bytes && s->units;
}

static void free_room(search *s) {
    free(s->x), free(s->entered), free(s->y), free(s->query), free(s->attended), free(s->inner), free(s->gate);
    free(s->scores), free(s->shares), free(s->seen), free(s->bytes), free(s->units);
}

/* --- what comes next ----------------------------------------------------------------------------------------------- */

ALWAYS int any_larger(vec a, vec b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)) != 0;
#else
    ivec c = a > b;
    int any = 0;
    for (int i = 0; i < LANES; i++) any |= c[i];
    return any;
#endif
}

/* The id that has to come next in a row, or -1: that of its prefix, or EOS at its limit. */
static long forced(const search *s, long r) {
    long b = s->now.of[r], at = s->q.prefix_starts[b] + s->length;
    if (at < s->q.prefix_starts[b + 1]) return s->q.prefixes[at];
    return s->length == s->q.limits[b] ? s->q.eos : -1;
}

/* The k largest of z: [V], the largest first and of equal ones the first. */
static void largest_of(const float *z, long V, long k, float *values, int32_t *ids) {
    for (long i = 0; i < k; i++) values[i] = -INFINITY, ids[i] = -1;
    for (long v = 0; v < V; v += LANES) {
        if (!any_larger(load(z + v), all(values[k - 1]))) continue;
        for (long j = v; j < smaller(V, v + LANES); j++) {
            if (!(z[j] > values[k - 1])) continue;
            long place = k - 1;
            for (; place > 0 && z[j] > values[place - 1]; place--)
                values[place] = values[place - 1], ids[place] = ids[place - 1];
            values[place] = z[j], ids[place] = (int32_t)j;
        }
    }
}

/* The largest of z: [V], and log Σ e^(z - largest); z is followed by -inf up to a whole vector. */
static float log_sum(const float *z, long V, float *most_of_all) {
    vec largest = load(z), sum = {0};
    for (long v = LANES; v < V; v += LANES) largest = larger(largest, load(z + v));
    float most = largest_of_all(largest);
    for (long v = 0; v < V; v += LANES) sum += exponential(load(z + v) - most);
    *most_of_all = most;
    return logf(sum_of(sum));
}

/* The likeliest ids of each row, with their log probabilities, the best first: from logits that are held for some rows at a
 * time. 0: they are not numbers. */
static int consider(search *s) {
    long V = s->V, width = rounded_up(V, COLUMNS), k = s->n_ids;
    matrix output = s->m->logits;
    for (long first = 0; first < s->R; first += ROWS_OF_LOGITS) {
        long rows = smaller(ROWS_OF_LOGITS, s->R - first);
        apply_apart(s, output, s->x + first * s->m->D, s->logits, rows, width);
        for (long r = first; r < first + rows; r++) {
            float *z = s->logits + (r - first) * width, *values = s->values + r * k, most;
            int32_t *ids = s->choices + r * k;
            long only = forced(s, r);
            float sum = log_sum(z, V, &most);
            if (!isfinite(sum) || !isfinite(z[s->q.eos])) return 0;
            if (only >= 0) {
                values[0] = s->length < s->q.n_certain ? 0 : z[only] - most - sum, ids[0] = (int32_t)only;
                if (!isfinite(values[0])) return 0;
                s->n_choices[r] = 1;
                continue;
            }
            for (long i = 0; i < s->q.n_forbidden; i++) z[s->q.forbidden[i]] = -INFINITY;
            largest_of(z, V, k, values, ids);
            if (ids[0] < 0) return 0;
            long n = 0;
            for (; n < k && ids[n] >= 0; n++) values[n] = values[n] - most - sum;
            s->n_choices[r] = n;
        }
    }
    return 1;
}

/* The likeliest id of each row without its probability: no logit is ever held. */
static int consider_one(search *s) {
    const matrix output = s->m->logits;
    long V = s->V, K = output.in;
    float tile[ROWS * COLUMNS];
    for (long first = 0; first < s->R; first += ROWS_AT_ONCE) {
        long n = smaller(ROWS_AT_ONCE, s->R - first);
        vec most[ROWS_AT_ONCE], wrong[ROWS_AT_ONCE]; /* wrong: 0 as long as all are numbers */
        ivec at[ROWS_AT_ONCE];
        for (long r = 0; r < n; r++) most[r] = all(-INFINITY), at[r] = (ivec){0} - 1, wrong[r] = (vec){0};
        if (output.bytes != NULL) rounded(s, s->x + first * K, n, K);
        for (long j = 0; j < V; j += COLUMNS) {
            float bias[COLUMNS];
            for (long c = 0; c < COLUMNS; c++) {
                bias[c] = j + c >= V ? -INFINITY : output.bias == NULL || output.bytes != NULL ? 0 : output.bias[j + c];
                if (isnan(bias[c])) return 0;
            }
            for (long i = 0; i < s->q.n_forbidden; i++)
                if (s->q.forbidden[i] >= j && s->q.forbidden[i] < j + COLUMNS) bias[s->q.forbidden[i] - j] = -INFINITY;
            for (long i = 0; i < n; i += ROWS) {
                long rows = smaller(ROWS, n - i);
                if (output.bytes == NULL)
                    wide_tile(rows, K, s->x + (first + i) * K, K, 1, output.panels + j * K, COLUMNS, tile, COLUMNS, NULL, 0);
                else
                    byte_tile(rows, s, &output, i, j, tile, COLUMNS);
                for (long r = 0; r < rows; r++)
                    for (int half = 0; half < COLUMNS; half += LANES) {
                        vec product = load(tile + r * COLUMNS + half), z = product + load(bias + half);
                        wrong[i + r] += product - product;
                        ivec better = z > most[i + r];
                        most[i + r] = where(better, z, most[i + r]);
                        at[i + r] = (at[i + r] & ~better) | (((ivec){0} + (int32_t)(j + half)) & better);
                    }
            }
        }
        for (long r = 0; r < n; r++) {
            float value = -INFINITY;
            long id = -1;
            for (int i = 0; i < LANES; i++) {
                long here = at[r][i] + i;
                if (at[r][i] >= 0 && (most[r][i] > value || (most[r][i] == value && here < id)))
                    value = most[r][i], id = here;
            }
            long only = forced(s, first + r);
            if (id < 0 || sum_of(wrong[r]) != 0) return 0;
            s->choices[first + r] = (int32_t)(only >= 0 ? only : id), s->values[first + r] = 0;
            s->n_choices[first + r] = 1;
        }
    }
    return 1;
}

/* --- search -------------------------------------------------------------------------------------------------------- */

static long grown(search *s, long parent, int32_t id, float log_prob) {
    if (s->n_nodes == s->room) {
        node *larger_tree = realloc(s->tree, 2 * s->room * sizeof(node));
        if (larger_tree == NULL) return NO_MEMORY;
        s->tree = larger_tree, s->room *= 2;
    }
    s->tree[s->n_nodes] = (node){parent, id, log_prob};
    return s->n_nodes++;
}

/* The candidates of a sentence, the likeliest first; of equal ones those of the first prefix. At most two for each prefix
 * of a beam. */
static long candidates_of(search *s, const sentence *one) {
    long n = 0, most = 2 * s->q.beam;
    for (long r = one->first; r < one->first + one->n; r++)
        for (long i = 0; i < s->n_choices[r]; i++) {
            float of_id = s->values[r * s->n_ids + i];
            candidate new = {s->now.log_probs[r] + of_id, of_id, s->choices[r * s->n_ids + i], r};
            if (n == most && !(new.log_prob > s->candidates[n - 1].log_prob)) break; /* the rest is less likely */
            long place = n < most ? n++ : n - 1;
            for (; place > 0 && new.log_prob > s->candidates[place - 1].log_prob; place--)
                s->candidates[place] = s->candidates[place - 1];
            s->candidates[place] = new;
        }
    return n;
}

/* A hypothesis that has ended competes for the places of its sentence; of equal ones the earlier has the better place. */
static void compete(search *s, long number, double score, long at) {
    ended *places = s->best + number * s->n_kept;
    long place = s->n_kept;
    for (; place > 0 && (places[place - 1].node < 0 || score > places[place - 1].score); place--)
        if (place < s->n_kept) places[place] = places[place - 1];
    if (place < s->n_kept) places[place] = (ended){score, at};
}

/* Whether something better may come of prefixes whose likeliest has this log probability. */
static int goes_on(const search *s, const sentence *one, double log_prob) {
    if (s->q.stopping == FIRST || s->q.beam == 1) return one->n_ended < s->q.beam;
    long last = (s->q.stopping == HEURISTIC ? s->q.beam : smaller(s->q.n_best, s->q.beam)) - 1;
    ended worst = s->best[one->number * s->n_kept + last];
    long length = s->q.stopping == HEURISTIC ? s->length : s->q.limits[one->number] + 1;
    return worst.node < 0 || log_prob / s->q.penalties[length] > worst.score;
}

/* One more id for every live prefix. Gives how many sentences go on, or what went wrong. */
long search_step(search *s) {
    if (s->n_live == 0) return 0;
    if (s->past[s->length] == NULL)
        s->past[s->length] = room_for(s->m->decoder.n_layers * s->R * 2 * s->m->H * s->m->K * sizeof(float));
    if (s->past[s->length] == NULL) return NO_MEMORY;
    decode(s);
    if (!(s->q.beam == 1 && !s->q.scored ? consider_one(s) : consider(s))) return NOT_NUMBERS;
    s->length++;
    long beam = s->q.beam, R = 0, n_live = 0;
    candidate *kept = s->candidates + 2 * beam;
    for (long i = 0; i < s->n_live; i++) {
        sentence one = s->live[i];
        long n = candidates_of(s, &one), n_kept = 0, first = R;
        long begun = s->q.prefix_starts[one.number + 1] - s->q.prefix_starts[one.number];
        for (long c = 0; c < n; c++) {
            candidate new = s->candidates[c];
            int ends = new.id == s->q.eos && s->length > begun; /* in what a sentence has to begin with it is an id */
            if (ends ? c >= beam : n_kept == beam) continue; /* an end that is not among the best is none */
            long at = grown(s, s->now.nodes[new.row], new.id, new.of_id);
            if (at < 0) return NO_MEMORY;
            if (ends) {
                one.n_ended++;
                compete(s, one.number, new.log_prob / s->q.penalties[s->length], at);
                continue;
            }
            kept[n_kept++] = new;
            s->next.nodes[R] = at, s->next.ids[R] = new.id, s->next.log_probs[R] = new.log_prob;
            s->next.of[R++] = one.number;
        }
        if (n_kept == 0 || !goes_on(s, &one, kept[0].log_prob)) {
            R = first;
            continue;
        }
        for (long j = 0; j < n_kept; j++)
            memcpy(s->next.slots + (first + j) * s->longest, s->now.slots + kept[j].row * s->longest,
                   s->length * sizeof(int32_t));
        one.first = first, one.n = n_kept;
        s->live[n_live++] = one;
    }
    rows last = s->now;
    s->now = s->next, s->next = last;
    s->R = R, s->n_live = n_live;
    return n_live;
}

static int has_rows(rows *r, long R, long longest) {
    r->ids = room_for(R * sizeof(int32_t)), r->nodes = room_for(R * sizeof(long)), r->of = room_for(R * sizeof(int64_t));
    r->log_probs = room_for(R * sizeof(double)), r->slots = room_for(R * longest * sizeof(int32_t));
    return r->ids && r->nodes && r->of && r->log_probs && r->slots;
}

static void free_rows(rows *r) { free(r->ids), free(r->nodes), free(r->of), free(r->log_probs), free(r->slots); }

void search_end(search *s) {
    if (s == NULL) return;
    for (long t = 0; s->past != NULL && t < s->longest; t++) free(s->past[t]);
    free(s->past), free(s->rows_then), free(s->live), free(s->best), free(s->tree), free(s->memory_keys);
    free(s->memory_values), free(s->memory_starts), free(s->logits), free(s->values), free(s->choices);
    free(s->n_choices), free(s->candidates);
    free_room(s);
    free_rows(&s->now), free_rows(&s->next);
    free(s);
}

/* What a search remembers, with its sources read; NULL: there is no memory for it. Both must stay until `search_end`. */
search *search_begin(const model *m, const request *q) {
    search *s = calloc(1, sizeof(search));
    if (s == NULL) return NULL;
    long B = q->B, beam = q->beam, most = B * beam, A = m->H * m->K;
    s->m = m, s->q = *q, s->V = m->logits.out, s->n_live = s->R = B;
    s->n_ids = beam == 1 ? 1 : smaller(beam + 1, s->V);
    s->n_kept = q->stopping == HEURISTIC && beam > q->n_best ? beam : q->n_best;
    s->memory_starts = calloc(B + 1, sizeof(int64_t));
    if (s->memory_starts == NULL) goto failed;
    for (long b = 0; b < B; b++) {
        s->longest = q->limits[b] + 1 > s->longest ? q->limits[b] + 1 : s->longest; /* steps */
        s->memory_starts[b + 1] = s->memory_starts[b] + rounded_up(q->starts[b + 1] - q->starts[b], LANES);
    }
    s->n_memory = s->memory_starts[B];
    long N = q->starts[B], width = rounded_up(s->V, COLUMNS);
    s->room = 64 + 4 * most;
    s->live = room_for(B * sizeof(sentence)), s->best = room_for(B * s->n_kept * sizeof(ended));
    s->tree = room_for(s->room * sizeof(node));
    s->past = calloc(s->longest, sizeof(float *)), s->rows_then = calloc(s->longest, sizeof(int64_t));
    s->memory_keys = room_for(m->decoder.n_layers * s->n_memory * A * 4);
    s->memory_values = room_for(m->decoder.n_layers * N * A * 4);
    s->logits = room_for(smaller(most, ROWS_OF_LOGITS) * width * 4);
    s->values = room_for(most * s->n_ids * 4), s->choices = room_for(most * s->n_ids * 4);
    s->n_choices = room_for(most * sizeof(long)), s->candidates = room_for(3 * beam * sizeof(candidate));
    int whole = has_rows(&s->now, most, s->longest) & has_rows(&s->next, most, s->longest) & has_room(s, most);
    if (!(whole && s->live && s->best && s->tree && s->past && s->rows_then && s->memory_keys && s->memory_values &&
          s->logits && s->values && s->choices && s->n_choices && s->candidates))
        goto failed;
    for (long i = 0; i < smaller(most, ROWS_OF_LOGITS); i++)
        for (long v = s->V; v < width; v++) s->logits[i * width + v] = -INFINITY;
    for (long i = 0; i < B * s->n_kept; i++) s->best[i] = (ended){-INFINITY, -1};
    for (long b = 0; b < B; b++) {
        s->live[b] = (sentence){b, b, 1, 0};
        s->now.ids[b] = (int32_t)q->bos, s->now.nodes[b] = -1, s->now.of[b] = b, s->now.log_probs[b] = 0;
    }
    if (encode(s)) return s;
failed:
    search_end(s);
    return NULL;
}

/* All of it. Gives 0, or what went wrong. */
long search_through(search *s) {
    long n;
    while ((n = search_step(s)) > 0) {}
    return n;
}

/* The last id of the first live prefix. */
long search_last(const search *s) { return s->now.ids[0]; }

/* The hypotheses of each sentence, the best first: `lengths` [B, n_best] of ids without EOS, -1 where there is none; in `ids`
 * and `log_probs`, where a sentence has room for n_best of its limit and one more, they are with it. */
void search_found(const search *s, int64_t *lengths, int32_t *ids, float *log_probs) {
    for (long b = 0; b < s->q.B; b++)
        for (long i = 0; i < s->q.n_best; i++) {
            long at = s->best[b * s->n_kept + i].node, n = 0;
            for (long up = at; up >= 0; up = s->tree[up].parent) n++;
            lengths[b * s->q.n_best + i] = n - 1;
            for (long up = at; up >= 0; up = s->tree[up].parent)
                n--, ids[n] = s->tree[up].id, log_probs[n] = s->tree[up].log_prob;
            ids += s->q.limits[b] + 1, log_probs += s->q.limits[b] + 1;
        }
}

/* The logits of the next id of R rows, in rows `width` apart, for searches that others do: of each row its last id, its
 * sentence in `with`, and where its past is. `past` has the keys and values of each length, `rows_then` how many rows they
 * are of; the last is made here. 0: there is no memory for it. */
int search_logits(const search *with, long R, long length, int32_t *ids, int64_t *of, int32_t *slots, float **past,
                  int64_t *rows_then, float *logits, long width) {
    search s = {.m = with->m, .q = with->q, .R = R, .length = length, .longest = length + 1};
    s.now = (rows){.ids = ids, .of = of, .slots = slots};
    s.past = past, s.rows_then = rows_then;
    s.memory_keys = with->memory_keys, s.memory_values = with->memory_values;
    s.memory_starts = with->memory_starts, s.n_memory = with->n_memory;
    int whole = has_room(&s, R);
    if (whole) {
        decode(&s);
        apply_apart(&s, s.m->logits, s.x, logits, R, width);
    }
    free_room(&s);
    return whole;
}

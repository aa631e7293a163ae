/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/naming.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/encoding.h"
#include "format/lode.h"

enum { NAME_BYTES = 512 };

static const struct cv_family *const families[] = {
    &cv_family_kimi_k3,
    &cv_family_kimi_linear,
};

enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]) };

/* What the pass over all tensors finds besides what it puts into the model. */
struct matching {
    struct cv_model *m;
    struct cv_checkpoint *c;
    struct lode_buf aux;    /* uint32_t each */
    struct cv_list unknown;
    struct cv_list samples; /* unknown names, shown when no expert is found */
    struct cv_list drafts;  /* of layers behind the last */
    uint64_t expert_tensor_count;
    bool keep_unknown;
};

bool
cv_family_find(const json_t *config, const struct cv_family **out,
               struct lode_error *err)
{
    char known[160] = "";
    const char *type;

    if (!json_is_object(config))
        return lode_fail(err, LODE_E_CORRUPT, "expected an object, found %s",
                         lode_json_type_name(config));
    if (!lode_json_string(config, "model_type", &type, err))
        return false;
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        size_t used = strlen(known);

        if (strcmp(families[i]->name, type) == 0) {
            *out = families[i];
            return true;
        }
        (void)snprintf(known + used, sizeof(known) - used, "%s%s",
                       i != 0 ? ", " : "", families[i]->name);
    }
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "model_type \"%.100s\" is not known; this build knows %s",
                     type, known);
}

uint32_t
cv_expert_slot(uint16_t role)
{
    switch (role) {
    case LODE_ROLE_GATE:
        return CV_GATE;
    case LODE_ROLE_GATE_SCALE:
        return CV_GATE_SCALE;
    case LODE_ROLE_UP:
        return CV_UP;
    case LODE_ROLE_UP_SCALE:
        return CV_UP_SCALE;
    case LODE_ROLE_DOWN:
        return CV_DOWN;
    default:
        return CV_DOWN_SCALE;
    }
}

bool
cv_rule_name(const struct cv_model *m, const struct cv_rule *r, char *out,
             size_t out_bytes, struct lode_error *err)
{
    bool layered = r->scope == CV_IN_TRUNK || r->scope == CV_IN_EXPERT;
    const char *prefix =
        r->role == LODE_ROLE_HEAD ? m->prefix.head : m->prefix.body;
    int n = snprintf(out, out_bytes, "%s%s%s", prefix,
                     layered ? "layers.{L}." : "", r->name);

    if (n < 0 || (size_t)n >= out_bytes)
        return lode_fail(err, LODE_E_LIMIT, "tensor name too long");
    return true;
}

/* A decimal number without leading zeros in front of a dot; *rest is behind
 * the dot. */
static bool
take_number(const char *text, uint32_t *out, const char **rest)
{
    uint64_t value = 0;
    size_t n = 0;

    while (text[n] >= '0' && text[n] <= '9' && n < 10)
        value = value * 10 + (uint64_t)(text[n++] - '0');
    if (n == 0 || (n > 1 && text[0] == '0') || text[n] != '.' ||
        value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    *rest = text + n + 1;
    return true;
}

/* Does text fit the rule's name?  Where {E} stands, *expert is its number. */
static bool
fits(const char *rule, const char *text, uint32_t *expert)
{
    const char *brace = strstr(rule, "{E}.");
    size_t n;

    if (brace == NULL)
        return strcmp(rule, text) == 0;
    n = (size_t)(brace - rule);
    return strncmp(rule, text, n) == 0 &&
           take_number(text + n, expert, &text) &&
           strcmp(brace + 4, text) == 0;
}

/* The elements a shape has, or 0 with a dimension of 0. */
static uint64_t
elements(const struct cv_tensor *t)
{
    uint64_t n = 1;

    for (size_t i = 0; i < t->dim_count; i++)
        n *= t->dim[i]; /* bounded: times its dtype it fits a file */
    return n;
}

static const char *
shape_text(const uint64_t *dim, size_t count, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count && used < out_bytes; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%" PRIu64,
                                 i != 0 ? ", " : "", dim[i]);
    return out;
}

/* What the rule wants: its dimensions by config.json, packed ones in bytes. */
static bool
wanted_shape(const struct cv_model *m, const struct cv_rule *r,
             uint64_t dim[3], size_t *count, struct lode_error *err)
{
    uint64_t columns;

    *count = 0;
    while (*count < 3 && r->dim[*count] != CV_DIM_END) {
        dim[*count] = m->dim[r->dim[*count]];
        ++*count;
    }
    if (r->form != CV_PACKED && r->form != CV_SCALE)
        return true;
    columns = dim[*count - 1];
    if (columns % 32 != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "MXFP4 with %" PRIu64
                         " columns, which is no multiple of 32",
                         columns);
    dim[*count - 1] = columns / (r->form == CV_PACKED ? 2 : 32);
    return true;
}

static bool
check_dtype(const struct cv_rule *r, const struct cv_tensor *t,
            struct lode_error *err)
{
    enum lode_encoding e = lode_encoding_find(lode_dtype_encoding(t->dtype));

    if (r->form == CV_PACKED || r->form == CV_SCALE) {
        if (strcmp(t->dtype, "U8") == 0)
            return true;
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "expected dtype U8 (MXFP4), found %s", t->dtype);
    }
    if (e == LODE_ENC_BF16 || e == LODE_ENC_F16 || e == LODE_ENC_F32)
        return true;
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "expected dtype BF16, F16 or F32, found %s", t->dtype);
}

static bool
check_tensor(const struct cv_model *m, const struct cv_rule *r,
             const struct cv_tensor *t, struct lode_error *err)
{
    char want[80];
    char have[160];
    uint64_t dim[3];
    size_t count;

    if (!check_dtype(r, t, err) || !wanted_shape(m, r, dim, &count, err))
        return lode_fail_in(err, "tensor \"%.200s\"", t->name);
    if (r->form == CV_PER_HEAD) {
        if (elements(t) == m->dim[CV_DIM_KDA_HEADS] ||
            (elements(t) == m->dim[CV_DIM_KDA_HEAD] &&
             elements(t) > m->dim[CV_DIM_KDA_HEADS]))
            return true;
    } else if (t->dim_count == count &&
               memcmp(t->dim, dim, count * sizeof(dim[0])) == 0) {
        return true;
    }
    return lode_fail(err, LODE_E_CORRUPT,
                     "tensor \"%.200s\" has shape [%s]; by config.json it "
                     "should be [%s]",
                     t->name,
                     shape_text(t->dim, t->dim_count, have, sizeof(have)),
                     shape_text(dim, count, want, sizeof(want)));
}

static bool
claim(struct matching *k, uint32_t tensor, int32_t *slot,
      const struct cv_rule *r, struct lode_error *err)
{
    struct cv_tensor *t = &k->c->tensors[tensor];

    if (*slot != CV_NO_TENSOR)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensors \"%.160s\" and \"%.160s\" both are the %s",
                         k->c->tensors[*slot].name, t->name,
                         lode_role_name(r->role));
    if (!check_tensor(k->m, r, t, err))
        return false;
    *slot = (int32_t)tensor;
    t->claimed = true;
    return true;
}

/* The tensor of one rule of one layer, once the rule is known to apply. */
static bool
claim_layered(struct matching *k, uint32_t tensor, uint32_t rule,
              uint32_t layer, uint32_t expert, struct lode_error *err)
{
    const struct cv_model *m = k->m;
    const struct cv_rule *r = &m->family->rules[rule];
    uint64_t at;

    if (r->scope == CV_IN_TRUNK) {
        at = (uint64_t)layer * m->family->rule_count + rule;
        return claim(k, tensor, &m->trunk[at], r, err);
    }
    if (expert >= m->expert_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensor \"%.200s\" is of expert %" PRIu32
                         ", config.json has %" PRIu32 " experts",
                         k->c->tensors[tensor].name, expert, m->expert_count);
    k->expert_tensor_count++;
    at = ((uint64_t)layer * m->expert_count + expert) * CV_EXPERT_SLOTS +
         cv_expert_slot(r->role);
    return claim(k, tensor, &m->experts[at], r, err);
}

/* Match one name behind its prefix.  Rules of one name differ in what they
 * need; if the name is known but config.json switches it off here, the two
 * contradict each other. */
static bool
match_rules(struct matching *k, uint32_t tensor, bool layered, uint32_t layer,
            const char *rest, struct lode_error *err)
{
    struct cv_model *m = k->m;
    uint32_t on = layered ? m->switches[layer] : m->model_switches;
    uint32_t expert = 0;
    bool known = false;

    for (uint32_t i = 0; i < m->family->rule_count; i++) {
        const struct cv_rule *r = &m->family->rules[i];
        bool in_layer = r->scope == CV_IN_TRUNK || r->scope == CV_IN_EXPERT;

        if (in_layer != layered || !fits(r->name, rest, &expert))
            continue;
        known = true;
        if ((r->needs & ~on) != 0)
            continue;
        if (layered)
            return claim_layered(k, tensor, i, layer, expert, err);
        return claim(k, tensor, &m->single[i], r, err);
    }
    if (known && layered)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensor \"%.200s\" does not fit config.json, by which "
                         "layer %" PRIu32 " has none of this kind",
                         k->c->tensors[tensor].name, layer);
    if (known)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensor \"%.200s\" does not fit config.json, by which "
                         "the model has none of this kind",
                         k->c->tensors[tensor].name);
    return true; /* nobody claims it: seen by the caller */
}

static bool
is_aux(const struct cv_family *f, const char *name)
{
    for (const char *const *p = f->aux_prefixes; *p != NULL; p++)
        if (strncmp(name, *p, strlen(*p)) == 0)
            return true;
    return false;
}

static bool
carry(struct matching *k, uint32_t tensor, struct lode_error *err)
{
    k->c->tensors[tensor].claimed = true;
    return lode_buf_append(&k->aux, &tensor, sizeof(tensor), err);
}

static bool
match_text(struct matching *k, uint32_t tensor, struct lode_error *err)
{
    const struct cv_model *m = k->m;
    const char *name = k->c->tensors[tensor].name;
    size_t head = strlen(m->prefix.head);
    size_t body = strlen(m->prefix.body);
    const char *rest;
    uint32_t layer;

    if (strncmp(name, m->prefix.body, body) == 0) {
        if (strncmp(name + body, "layers.", 7) == 0 &&
            take_number(name + body + 7, &layer, &rest)) {
            if (layer < m->layer_count)
                return match_rules(k, tensor, true, layer, rest, err);
            cv_list_add(&k->drafts, name);
            return carry(k, tensor, err);
        }
        /* The head does not lie behind the body's prefix. */
        if (strcmp(name + body, "lm_head.weight") != 0)
            return match_rules(k, tensor, false, 0, name + body, err);
    }
    if (strncmp(name, m->prefix.head, head) == 0 &&
        strcmp(name + head, "lm_head.weight") == 0)
        return match_rules(k, tensor, false, 0, name + head, err);
    return true;
}

static bool
match_all(struct matching *k, struct lode_error *err)
{
    for (uint32_t i = 0; i < k->c->tensor_count; i++) {
        const char *name = k->c->tensors[i].name;

        if (strstr(name, "{L}") != NULL || strstr(name, "{E}") != NULL)
            return lode_fail(err, LODE_E_UNSUPPORTED,
                             "tensor \"%.200s\": a container cannot carry "
                             "names with {L} or {E}",
                             name);
        if (is_aux(k->m->family, name)) {
            if (!carry(k, i, err))
                return false;
            continue;
        }
        if (!match_text(k, i, err))
            return false;
        if (k->c->tensors[i].claimed)
            continue;
        cv_list_add(&k->unknown, name);
        if (strstr(name, "moe") != NULL || strstr(name, "expert") != NULL)
            cv_list_add(&k->samples, name);
        if (k->keep_unknown && !carry(k, i, err))
            return false;
    }
    return true;
}

static bool
judge_unknown(struct matching *k, struct cv_notes *notes,
              struct lode_error *err)
{
    const struct cv_model *m = k->m;
    uint32_t draft_count = k->drafts.count;
    uint32_t unknown_count = k->unknown.count;

    if (m->expert_count != 0 && k->expert_tensor_count == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "config.json says MoE (%" PRIu32 " experts), but 0 "
                         "expert tensors matched; %s",
                         m->expert_count,
                         k->samples.count != 0 ? cv_list_text(&k->samples)
                         : unknown_count != 0  ? cv_list_text(&k->unknown)
                                               : "no tensor is left over");
    if (unknown_count != 0 && !k->keep_unknown)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "%" PRIu32 " tensors that no rule of %s claims: %s; "
                         "--keep-unknown carries them",
                         unknown_count, m->family->name,
                         cv_list_text(&k->unknown));
    if (unknown_count != 0 &&
        !cv_notes_add(notes, err, "carried although unknown: %" PRIu32
                      " tensors: %s", unknown_count,
                      cv_list_text(&k->unknown)))
        return false;
    return draft_count == 0 ||
           cv_notes_add(notes, err,
                        "carried, not run: %" PRIu32
                        " tensors of layers behind the last (%" PRIu32
                        " layers): %s",
                        draft_count, m->layer_count,
                        cv_list_text(&k->drafts));
}

/* The name a missing tensor would have. */
static bool
fail_missing(const struct cv_model *m, const struct cv_rule *r, uint32_t layer,
             uint32_t expert, struct lode_error *err)
{
    char where[80] = "";
    char pattern[NAME_BYTES];
    char name[NAME_BYTES];
    struct lode_tensor t = {.name = pattern};

    if (!cv_rule_name(m, r, pattern, sizeof(pattern), err) ||
        !lode_tensor_name(&t, (int32_t)layer, expert, name, sizeof(name), err))
        return false;
    if (r->scope == CV_IN_EXPERT)
        (void)snprintf(where, sizeof(where),
                       "layer %" PRIu32 ", expert %" PRIu32 ": ", layer,
                       expert);
    else if (r->scope == CV_IN_TRUNK)
        (void)snprintf(where, sizeof(where), "layer %" PRIu32 ": ", layer);
    return lode_fail(err, LODE_E_CORRUPT, "%sthe %s is missing (\"%s\")%s",
                     where, lode_role_name(r->role), name,
                     r->role == LODE_ROLE_HEAD
                         ? "; if the head is the embedding, config.json must "
                           "say \"tie_word_embeddings\": true"
                         : "");
}

/* All experts of a layer are alike, so that one schema serves them. */
static bool
check_alike(const struct cv_model *m, const struct cv_checkpoint *c,
            const struct cv_rule *r, uint32_t layer, uint32_t expert,
            struct lode_error *err)
{
    const int32_t *first = &m->experts[(uint64_t)layer * m->expert_count *
                                       CV_EXPERT_SLOTS];
    uint32_t slot = cv_expert_slot(r->role);
    const char *a = c->tensors[first[slot]].dtype;
    const char *b =
        c->tensors[first[expert * CV_EXPERT_SLOTS + slot]].dtype;

    if (strcmp(a, b) == 0)
        return true;
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "layer %" PRIu32 ", expert %" PRIu32
                     ": the %s is %s, that of expert 0 is %s",
                     layer, expert, lode_role_name(r->role), b, a);
}

static bool
check_layer(const struct cv_model *m, const struct cv_checkpoint *c,
            uint32_t layer, struct lode_error *err)
{
    for (uint32_t i = 0; i < m->family->rule_count; i++) {
        const struct cv_rule *r = &m->family->rules[i];
        uint32_t count = r->scope == CV_IN_EXPERT ? m->expert_count : 1;

        if ((r->scope != CV_IN_TRUNK && r->scope != CV_IN_EXPERT) ||
            (r->needs & ~m->switches[layer]) != 0)
            continue;
        for (uint32_t e = 0; e < count; e++) {
            uint64_t at = r->scope == CV_IN_TRUNK
                              ? (uint64_t)layer * m->family->rule_count + i
                              : ((uint64_t)layer * m->expert_count + e) *
                                        CV_EXPERT_SLOTS +
                                    cv_expert_slot(r->role);
            const int32_t *table =
                r->scope == CV_IN_TRUNK ? m->trunk : m->experts;

            if (table[at] == CV_NO_TENSOR)
                return fail_missing(m, r, layer, e, err);
            if (r->scope == CV_IN_EXPERT &&
                !check_alike(m, c, r, layer, e, err))
                return false;
        }
    }
    return true;
}

static bool
check_complete(const struct cv_model *m, const struct cv_checkpoint *c,
               struct lode_error *err)
{
    for (uint32_t l = 0; l < m->layer_count; l++)
        if (!check_layer(m, c, l, err))
            return false;
    for (uint32_t i = 0; i < m->family->rule_count; i++) {
        const struct cv_rule *r = &m->family->rules[i];

        if ((r->scope == CV_IN_OUTPUT || r->scope == CV_IN_EMBEDDING) &&
            (r->needs & ~m->model_switches) == 0 &&
            m->single[i] == CV_NO_TENSOR)
            return fail_missing(m, r, 0, 0, err);
    }
    return true;
}

/* The number of the first tensor whose name is not less than name. */
static uint32_t
lower_bound(const struct cv_checkpoint *c, const char *name)
{
    uint32_t low = 0;
    uint32_t high = c->tensor_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(c->tensors[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
has_prefix(const struct cv_checkpoint *c, const char *prefix)
{
    uint32_t i = lower_bound(c, prefix);

    return i < c->tensor_count &&
           strncmp(c->tensors[i].name, prefix, strlen(prefix)) == 0;
}

/* The one prefix of the family under which there are layers. */
static bool
choose_prefix(struct cv_model *m, const struct cv_checkpoint *c,
              struct lode_error *err)
{
    const char *chosen = NULL;
    char name[128];

    for (const struct cv_prefix *p = m->family->prefixes; p->body != NULL;
         p++) {
        (void)snprintf(name, sizeof(name), "%slayers.", p->body);
        if (!has_prefix(c, name))
            continue;
        if (chosen != NULL)
            return lode_fail(err, LODE_E_CORRUPT,
                             "layers under two prefixes, \"%s\" and \"%s\"",
                             chosen, p->body);
        chosen = p->body;
        m->prefix = *p;
    }
    if (chosen == NULL)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "no tensor has the name of a layer of %s, for "
                         "example \"%slayers.0.\"; the first is \"%.200s\"",
                         m->family->name, m->family->prefixes[0].body,
                         c->tensors[0].name);
    return true;
}

static bool
read_tied(struct cv_model *m, const json_t *config, const json_t *text,
          struct lode_error *err)
{
    static const char key[] = "tie_word_embeddings";
    bool outer = false;
    bool inner = false;

    if ((!lode_json_absent(config, key) &&
         !lode_json_bool(config, key, &outer, err)) ||
        (!lode_json_absent(text, key) &&
         !lode_json_bool(text, key, &inner, err)))
        return false;
    if (!lode_json_absent(config, key) && !lode_json_absent(text, key) &&
        outer != inner)
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"%s\" is %s, but in \"text_config\" it is not", key,
                         outer ? "true" : "false");
    m->tied = outer || inner;
    return true;
}

/* A head that is stored although config.json ties it is kept: nobody but the
 * publisher knows whether it differs. */
static bool
settle_head(struct cv_model *m, const struct cv_checkpoint *c,
            struct cv_notes *notes, struct lode_error *err)
{
    char name[128];
    uint32_t i;

    (void)snprintf(name, sizeof(name), "%slm_head.weight", m->prefix.head);
    i = lower_bound(c, name);
    if (!m->tied) {
        m->model_switches |= CV_SWITCH_UNTIED;
        return true;
    }
    if (i == c->tensor_count || strcmp(c->tensors[i].name, name) != 0)
        return cv_notes_add(notes, err,
                            "the head is tied: the embedding serves as head");
    m->model_switches |= CV_SWITCH_UNTIED;
    return cv_notes_add(notes, err,
                        "warning: config.json ties the head to the embedding, "
                        "yet %s is stored; it is kept and used",
                        name);
}

/* Is MXFP4 announced, and nothing else? */
static bool
read_quantization(struct cv_model *m, const json_t *config, const json_t *text,
                  struct lode_error *err)
{
    const json_t *q = json_object_get(text, "quantization_config");
    const char *format;

    if (q == NULL || json_is_null(q))
        q = json_object_get(config, "quantization_config");
    if (q == NULL || json_is_null(q))
        return true;
    if (!lode_json_string(q, "format", &format, err))
        return lode_fail_in(err, "\"quantization_config\"");
    if (strcmp(format, "mxfp4-pack-quantized") != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "quantization format \"%.100s\"; for %s this build "
                         "knows mxfp4-pack-quantized",
                         format, m->family->name);
    m->packed = true;
    return true;
}

static bool
new_table(uint64_t count, const char *what, int32_t **out,
          struct lode_error *err)
{
    void *p;

    if (!lode_alloc_array(count, sizeof(**out), what, &p, err))
        return false;
    *out = p;
    for (uint64_t i = 0; i < count; i++)
        (*out)[i] = CV_NO_TENSOR;
    return true;
}

/* The tables are as large as config.json says, so first the checkpoint must
 * have about as many tensors. */
static bool
make_tables(struct cv_model *m, const struct cv_checkpoint *c,
            struct lode_error *err)
{
    uint64_t moe_layers = 0;

    for (uint32_t i = 0; i < m->layer_count; i++)
        moe_layers += (m->switches[i] & CV_SWITCH_MOE) != 0;
    if (moe_layers * m->expert_count > (uint64_t)c->tensor_count + 64 ||
        m->layer_count > c->tensor_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "config.json says %" PRIu32 " layers, %" PRIu64
                         " of them with %" PRIu32
                         " experts; the checkpoint has only %" PRIu32
                         " tensors",
                         m->layer_count, moe_layers, m->expert_count,
                         c->tensor_count);
    return new_table((uint64_t)m->layer_count * m->family->rule_count,
                     "trunk table", &m->trunk, err) &&
           new_table((uint64_t)m->layer_count * m->expert_count *
                         CV_EXPERT_SLOTS,
                     "expert table", &m->experts, err);
}

static bool
read_config(struct cv_model *m, const json_t *config, struct lode_error *err)
{
    const json_t *text = json_object_get(config, "text_config");
    uint64_t layers;
    void *p;

    if (text == NULL || json_is_null(text))
        text = config;
    else if (!json_is_object(text))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"text_config\": expected an object, found %s",
                         lode_json_type_name(text));
    if (!lode_json_u64(text, "num_hidden_layers", 1, CV_LAYERS_MAX, &layers,
                       err))
        return false;
    m->layer_count = (uint32_t)layers;
    if (!lode_alloc_array(layers, sizeof(m->switches[0]), "layers", &p, err))
        return false;
    m->switches = p;
    return read_tied(m, config, text, err) &&
           read_quantization(m, config, text, err) &&
           m->family->configure(m, text, err);
}

static bool
build(struct matching *k, const json_t *config, struct cv_notes *notes,
      struct lode_error *err)
{
    struct cv_model *m = k->m;

    if (!cv_family_find(config, &m->family, err) ||
        !read_config(m, config, err))
        return lode_fail_in(err, "config.json");
    if (!choose_prefix(m, k->c, err) || !make_tables(m, k->c, err) ||
        !settle_head(m, k->c, notes, err))
        return false;
    for (size_t i = 0; i < CV_RULES_MAX; i++)
        m->single[i] = CV_NO_TENSOR;
    if (!match_all(k, err) || !judge_unknown(k, notes, err) ||
        !check_complete(m, k->c, err))
        return false;
    m->aux = (void *)k->aux.data;
    m->aux_count = (uint32_t)(k->aux.used_bytes / sizeof(m->aux[0]));
    memset(&k->aux, 0, sizeof(k->aux));
    return true;
}

bool
cv_model_build(const json_t *config, struct cv_checkpoint *c,
               bool keep_unknown, struct cv_model **out,
               struct cv_notes *notes, struct lode_error *err)
{
    struct matching k;
    void *p;

    if (!lode_alloc_array(1, sizeof(struct cv_model), "model", &p, err))
        return false;
    memset(&k, 0, sizeof(k));
    k.m = p;
    k.c = c;
    k.keep_unknown = keep_unknown;
    if (!build(&k, config, notes, err)) {
        lode_buf_fini(&k.aux);
        cv_model_free(k.m);
        return lode_fail_in(err, "%s", c->path);
    }
    *out = k.m;
    return true;
}

void
cv_model_free(struct cv_model *m)
{
    if (m == NULL)
        return;
    free(m->switches);
    free(m->trunk);
    free(m->experts);
    free(m->aux);
    free(m);
}

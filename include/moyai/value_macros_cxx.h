/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MOYAI_ARGS and MOYAI_INTO in C++: overloads, and a braced list, whose array lives to the end of the full expression;
 * include moyai/value.h instead.
 */
#ifndef MOYAI_VALUE_MACROS_CXX_H
#define MOYAI_VALUE_MACROS_CXX_H

#include <moyai/value.h>

#ifdef __cplusplus
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

#define MOYAI_X(suffix, type, tag, member, size)                                                                       \
    inline struct moyai_arg moyai_arg_of(type x) {                                                                     \
        return moyai_arg_##suffix##_(x);                                                                               \
    }                                                                                                                  \
    inline struct moyai_into_arg moyai_dest_of(type *p) {                                                              \
        return moyai_into_##suffix##_(p);                                                                              \
    }
MOYAI_INT_TABLE(MOYAI_X)
#undef MOYAI_X
inline struct moyai_arg moyai_arg_of(char x) {
    return moyai_arg_char_(x);
}
inline struct moyai_arg moyai_arg_of(bool x) {
    return moyai_arg_bool_(x);
}
inline struct moyai_arg moyai_arg_of(float x) {
    return moyai_arg_float_(x);
}
inline struct moyai_arg moyai_arg_of(double x) {
    return moyai_arg_double_(x);
}
inline struct moyai_arg moyai_arg_of(const char *x) {
    return moyai_arg_str_(x);
}
inline struct moyai_arg moyai_arg_of(const moyai_ref *x) {
    return moyai_arg_ref_(x);
}
inline struct moyai_arg moyai_arg_of(const moyai_value *x) {
    return moyai_arg_value_(x);
}
inline struct moyai_arg moyai_arg_of(char *x) {
    return moyai_arg_str_(x);
}
inline struct moyai_arg moyai_arg_of(moyai_ref *x) {
    return moyai_arg_ref_(x);
}
inline struct moyai_arg moyai_arg_of(moyai_value *x) {
    return moyai_arg_value_(x);
}
inline struct moyai_arg moyai_arg_of(struct moyai_arg x) {
    return x;
}
/* Any other pointer would become a bool. */
template <class T> struct moyai_arg moyai_arg_of(T *) = delete;
struct moyai_arg moyai_arg_of(std::nullptr_t) = delete;
inline struct moyai_into_arg moyai_dest_of(char *p) {
    return moyai_into_char_(p);
}
inline struct moyai_into_arg moyai_dest_of(bool *p) {
    return moyai_into_bool_(p);
}
inline struct moyai_into_arg moyai_dest_of(float *p) {
    return moyai_into_float_(p);
}
inline struct moyai_into_arg moyai_dest_of(double *p) {
    return moyai_into_double_(p);
}
inline struct moyai_into_arg moyai_dest_of(const char **p) {
    return moyai_into_str_(p);
}
inline struct moyai_into_arg moyai_dest_of(moyai_ref **p) {
    return moyai_into_ref_(p);
}
inline struct moyai_into_arg moyai_dest_of(moyai_value **p) {
    return moyai_into_value_(p);
}
inline struct moyai_into_arg moyai_dest_of(struct moyai_into_arg x) {
    return x;
}

/* Is there one of them for it? */
template <class T, class = void> struct moyai_can_send_ : std::false_type {};
template <class T>
struct moyai_can_send_<T, std::void_t<decltype(moyai_arg_of(std::declval<T>()))>> : std::true_type {};
template <class T, class = void> struct moyai_can_read_ : std::false_type {};
template <class T>
struct moyai_can_read_<T, std::void_t<decltype(moyai_dest_of(std::declval<T>()))>> : std::true_type {};

template <class T> struct moyai_arg moyai_arg_checked_(T x) {
    static_assert(moyai_can_send_<T>::value, "MOYAI_ARGS: a value of this type cannot be sent, see moyai_values(3)");
    if constexpr (moyai_can_send_<T>::value)
        return moyai_arg_of(x);
    else
        return moyai_null();
}
template <class T> struct moyai_into_arg moyai_dest_checked_(T x) {
    static_assert(moyai_can_read_<T>::value, "MOYAI_INTO: nothing can be read into this type, see moyai_values(3)");
    if constexpr (moyai_can_read_<T>::value)
        return moyai_dest_of(x);
    else
        return moyai_skip();
}

/* A braced list that knows how to turn each element into a tagged value. */
struct moyai_arg_cxx : moyai_arg {
    template <class T> moyai_arg_cxx(T x) : moyai_arg(moyai_arg_checked_(x)) {}
};
struct moyai_dest_cxx : moyai_into_arg {
    template <class T> moyai_dest_cxx(T x) : moyai_into_arg(moyai_dest_checked_(x)) {}
};
static_assert(sizeof(moyai_arg_cxx) == sizeof(moyai_arg), "layout");
static_assert(sizeof(moyai_dest_cxx) == sizeof(moyai_into_arg), "layout");
/* Temporaries that live, as the braced list does, to the end of the full expression. */
struct moyai_args_cxx : moyai_args {
    moyai_args_cxx(std::initializer_list<moyai_arg_cxx> l) {
        v = l.begin();
        n = l.size();
    }
    operator const struct moyai_args *() const { return this; }
};
struct moyai_into_cxx : moyai_into {
    moyai_into_cxx(std::initializer_list<moyai_dest_cxx> l) {
        v = l.begin();
        n = l.size();
    }
    operator const struct moyai_into *() const { return this; }
};
#define MOYAI_ARG(x)    moyai_arg_checked_(x)
#define MOYAI_DEST(x)   moyai_dest_checked_(x)
#define MOYAI_ARGS(...) (static_cast<const struct moyai_args *>(moyai_args_cxx({__VA_ARGS__})))
#define MOYAI_INTO(...) (static_cast<const struct moyai_into *>(moyai_into_cxx({__VA_ARGS__})))

#endif
#endif

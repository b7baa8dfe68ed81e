// Python's tensors: where their numbers lie, if the core can read them there; and calls of the
// core.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

#include "regard/attention.h"

namespace nb = nanobind;

namespace {

using Index = std::int64_t;

// The name of an attribute, made once.
struct Name {
    PyObject* text;
    explicit Name(const char* given) : text(PyUnicode_InternFromString(given)) {}
};

nb::object get(nb::handle from, const Name& name) {
    PyObject* found = PyObject_GetAttr(from.ptr(), name.text);
    if (found == nullptr) throw nb::python_error();
    return nb::steal(found);
}

Index integer(nb::handle from) {
    const Index found = PyLong_AsLongLong(from.ptr());
    if (found == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return found;
}

// What of DLPack's exchange of tensors by C functions (1.3) is used here, at its place.
struct Exchange {
    std::uint32_t major, minor;
    const void* before[4];
    int (*describe)(void* tensor, nb::dlpack::dltensor* to);
};

const Exchange& exchange() {
    static const Exchange* const torchs = [] {
        const nb::object capsule =
            nb::module_::import_("torch").attr("Tensor").attr("__dlpack_c_exchange_api__");
        void* found = PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
        if (found == nullptr) throw nb::python_error();
        const auto* made = static_cast<const Exchange*>(found);
        if (made->major != 1) throw std::runtime_error("regard._native: DLPack 1 is needed");
        return made;
    }();
    return *torchs;
}

// The numbers of a tensor where they lie.
struct Tensor : nb::dlpack::dltensor {
    // False if they are not of this type, or not at the tensor's address as it shows them.
    template <typename Number>
    bool read(nb::handle from) {
        return describe(from) && dtype == nb::dtype<Number>() && is_as_shown(from);
    }

    // The same for any type that rows may have.
    bool read_real(nb::handle from, regard::Type& type) {
        if (!describe(from) || dtype.lanes != 1) return false;
        constexpr auto kFloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
        constexpr auto kBFloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat);
        if (dtype.code == kFloat && dtype.bits == 32) {
            type = regard::Type::float32;
        } else if (dtype.code == kFloat && dtype.bits == 64) {
            type = regard::Type::float64;
        } else if (dtype.code == kFloat && dtype.bits == 16) {
            type = regard::Type::float16;
        } else if (dtype.code == kBFloat && dtype.bits == 16) {
            type = regard::Type::bfloat16;
        } else {
            return false;
        }
        return is_as_shown(from);
    }

    // False for what is no dense tensor on the CPU.
    bool describe(nb::handle from) {
        if (exchange().describe(from.ptr(), this) != 0) {
            PyErr_Clear();
            return false;
        }
        return device.device_type == nb::device::cpu::value;
    }

    // From here on `data` is where the first number lies; false if memory does not hold what the
    // tensor shows.
    bool is_as_shown(nb::handle from) {
        static const Name is_neg("is_neg");
        PyObject* negated = PyObject_CallMethodNoArgs(from.ptr(), is_neg.text);
        if (negated == nullptr) throw nb::python_error();
        Py_DECREF(negated);
        data = static_cast<char*>(data) + byte_offset;
        return negated == Py_False && (is_in_memory() || is_empty());
    }

    bool is_empty() const { return std::find(shape, shape + ndim, 0) != shape + ndim; }

    // Nothing of a process lies in the lowest 4 GiB; a view of a storage without memory seems to.
    bool is_in_memory() const { return reinterpret_cast<std::uintptr_t>(data) >> 32 != 0; }

    template <typename Number>
    Number* numbers() const {
        return static_cast<Number*>(data);
    }

    bool is(std::initializer_list<Index> expected) const {
        return std::equal(expected.begin(), expected.end(), shape, shape + ndim);
    }

    bool is_contiguous() const {
        if (is_empty()) return true;
        Index step = 1;
        for (int axis = ndim - 1; axis >= 0; step *= shape[axis--]) {
            if (shape[axis] != 1 && strides[axis] != step) return false;
        }
        return true;
    }

    // Four axes, of which the last is contiguous.
    template <typename Rows>
    bool read_rows(nb::handle from, Rows& to) {
        if (!read_real(from, to.type) || ndim != 4 || (strides[3] != 1 && shape[3] > 1)) {
            return false;
        }
        to.data = data;
        std::copy(strides, strides + 3, to.strides);
        return true;
    }
};

// Rows of a tensor of this shape and type.
template <typename Rows>
bool read_rows(nb::handle from, regard::Type type, std::initializer_list<Index> shape, Rows& to) {
    Tensor x;
    return x.read_rows(from, to) && to.type == type && x.is(shape);
}

// The numbers of a contiguous tensor of this shape; nothing is read of None.
template <typename Number>
bool read_numbers(nb::handle from, std::initializer_list<Index> shape, Number*& to) {
    if (from.is_none()) return true;
    Tensor x;
    if (!x.read<std::remove_const_t<Number>>(from) || !x.is(shape) || !x.is_contiguous()) {
        return false;
    }
    to = x.numbers<Number>();
    return true;
}

// Runs a call of the core without the interpreter's lock. Ctrl-C ends it.
template <typename Work>
bool run(Work work) {
    try {
        const nb::gil_scoped_release release;
        work();
    } catch (const regard::Interrupted&) {
        throw nb::python_error();  // set by PyErr_CheckSignals
    }
    return true;
}

}  // namespace

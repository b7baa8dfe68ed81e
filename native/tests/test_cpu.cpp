// cpu.h: the names, the version, and the instruction set against the kernel's own list of flags.
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "check.h"
#include "regard/cpu.h"

namespace {

using regard::InstructionSet;

#if defined(__x86_64__)
// The flags Linux lists for the first processor; empty where there is no such list.
std::set<std::string> flags_of_the_kernel() {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        if (line.rfind("flags", 0) != 0) continue;
        std::istringstream words(line.substr(line.find(':') + 1));
        std::set<std::string> flags;
        for (std::string word; words >> word;) flags.insert(word);
        return flags;
    }
    return {};
}
#endif

void every_set_has_its_name() {
    CHECK(std::string(regard::name(InstructionSet::avx512)) == "avx512");
    CHECK(std::string(regard::name(InstructionSet::avx2)) == "avx2");
    CHECK(std::string(regard::name(InstructionSet::neon)) == "neon");
    CHECK(std::string(regard::name(InstructionSet::portable)) == "portable");
}

void the_answer_stays_the_same() { CHECK(regard::instruction_set() == regard::instruction_set()); }

void the_answer_agrees_with_the_kernel() {
#if defined(__aarch64__)
    CHECK(regard::instruction_set() == InstructionSet::neon);
#elif defined(__x86_64__)
    const std::set<std::string> flags = flags_of_the_kernel();
    if (flags.empty()) return;
    const auto has = [&](const char* flag) { return flags.count(flag) == 1; };
    const bool avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
    const bool avx2 = has("avx2") && has("fma") && has("f16c");
    const InstructionSet expected = avx512 ? InstructionSet::avx512
                                    : avx2 ? InstructionSet::avx2
                                           : InstructionSet::portable;
    CHECK(regard::instruction_set() == expected);
    if (regard::has_amx()) CHECK(avx512 && has("amx_tile") && has("amx_bf16"));
#else
    CHECK(regard::instruction_set() == InstructionSet::portable);
#endif
}

std::set<std::string> kernels() {
    std::set<std::string> names;
    for (int n = 0; const char* name = regard::kernel_name(n); ++n) names.insert(name);
    return names;
}

void the_best_kernel_serves_and_the_lesser_ones_run() {
    const InstructionSet set = regard::instruction_set();
    const std::string best = regard::has_amx() ? "amx" : regard::name(set);
    CHECK(regard::kernel_name() == best);
    CHECK(regard::kernel_name(0) == best);
    std::set<std::string> expected{"portable", "wide", regard::name(set), best};
    if (set == InstructionSet::avx512) expected.insert("avx2");
    CHECK(kernels() == expected);
    for (const char* name : {"amx", "avx512", "avx2", "neon", "portable", "wide", "none"}) {
        CHECK(regard::use_kernel(name) == (expected.count(name) == 1));
    }
    CHECK(regard::use_kernel(nullptr));
    CHECK(regard::kernel_name() == best);
}

}  // namespace

int main(int argc, char** argv) {
    every_set_has_its_name();
    the_answer_stays_the_same();
    the_answer_agrees_with_the_kernel();
    the_best_kernel_serves_and_the_lesser_ones_run();
    CHECK(argc == 2 && std::string(regard::version()) == argv[1]);
    return check::result();
}

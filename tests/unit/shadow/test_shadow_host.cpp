// What `gpuplan shadow` does before and while a command runs: GPUs as CUDA describes them, programs that cannot be
// served, the environment, signals, what a command leaves behind.
#include <doctest/doctest.h>

#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "tools/options/run_options.h"
#include "validate/shadow/host/describe_gpu.h"
#include "validate/shadow/host/directories.h"
#include "validate/shadow/host/inspect_program.h"
#include "validate/shadow/host/launch.h"

namespace gpuplan::shadow {
namespace {

namespace fs = std::filesystem;

Gpu gpu_named(const std::string& name) {
  RunOptions options;
  options.gpu = name;
  return *load_gpu(options);
}

// A folder that goes with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "gpuplan-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  fs::path file(const std::string& name, const std::string& text, bool executable = false) const {
    std::ofstream(path / name, std::ios::binary) << text;
    if (executable) fs::permissions(path / name, fs::perms::owner_all);
    return path / name;
  }
};

Ending run_shell(
    const std::string& script, const std::function<void()>& tick = [] {}) {
  return run_command("/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, tick);
}

// An ELF file of nothing but program headers of these types, and `text` behind them.
std::string elf_with(const std::vector<std::uint32_t>& segments, const std::string& text) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phnum = static_cast<Elf64_Half>(segments.size());
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  for (const std::uint32_t type : segments) {
    Elf64_Phdr segment{};
    segment.p_type = type;
    out.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  }
  return out + text;
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  const auto found = std::ranges::find_if(environment, [&](const std::string& v) { return v.starts_with(name + "="); });
  return found == environment.end() ? "" : found->substr(name.size() + 1);
}

TEST_CASE("GPUs are described as in the recorded runs") {
  struct Row {
    const char* gpu;
    const char* name;
    int major, minor, multiprocessors, shared_sm, shared_block, reserved, threads, blocks;
    std::int64_t l2;
    int bus, clock, memory_clock;
  };
  // cudaDeviceProp of the GPUs whose runs are recorded in tests/shadow/results; the H200's cache and bus as its
  // driver says (tests/reference/h200/facts.json).
  const std::array<Row, 5> rows = {{
      {"h200", "NVIDIA H200", 9, 0, 132, 233472, 232448, 1024, 2048, 32, 62914560, 6016, 1980000, 3201000},
      {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 233472, 232448, 1024, 2048, 32, 52428800, 5120, 1980000, 2619000},
      {"a100-80gb", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 167936, 166912, 1024, 2048, 32, 41943040, 5120, 1410000,
       1593000},
      {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 102400, 101376, 1024, 1536, 24, 75497472, 384, 2520000,
       10501000},
      {"t4", "Tesla T4", 7, 5, 40, 65536, 65536, 0, 1024, 16, 4194304, 256, 1590000, 5001000},
  }};
  for (const Row& row : rows) {
    CAPTURE(row.gpu);
    const Gpu gpu = gpu_named(row.gpu);
    const DescribedGpu described = describe(gpu, gpu_named("a100-80gb"));
    const GpuDescription& d = described.description;
    CHECK(described.assumed.empty());
    CHECK(d.key == row.gpu);
    CHECK(d.name == row.name);
    CHECK(d.major == row.major);
    CHECK(d.minor == row.minor);
    CHECK(d.multi_processor_count == row.multiprocessors);
    CHECK(d.total_global_mem == *gpu.cuda_total_bytes);
    CHECK(d.shared_mem_per_multiprocessor == row.shared_sm);
    CHECK(d.shared_mem_per_block_optin == row.shared_block);
    CHECK(d.reserved_shared_mem_per_block == row.reserved);
    CHECK(d.max_threads_per_multi_processor == row.threads);
    CHECK(d.max_blocks_per_multi_processor == row.blocks);
    CHECK(d.l2_cache_size == row.l2);
    CHECK(d.memory_bus_width == row.bus);
    CHECK(d.clock_rate == row.clock);
    CHECK(d.memory_clock_rate == row.memory_clock);
  }
}

TEST_CASE("of a GPU that no program described, its datasheet is taken, which lacks the memory's bus and clock") {
  int described = 0;
  for (const Gpu& gpu : gpu_table()) {
    CAPTURE(gpu.name);
    const std::vector<std::string> assumed = describe(gpu, gpu_named("h100")).assumed;
    if (gpu.memory_bus_bits) CHECK(assumed.empty());
    described += assumed.empty();
    for (const std::string& what : assumed)
      if (gpu.datasheet->l2_mib && gpu.datasheet->boost_clock_mhz) CHECK(what.starts_with("the memory "));
  }
  CHECK(described == 7);
}

TEST_CASE("what a GPU's file lacks is taken from another GPU, and said") {
  Gpu gpu = gpu_named("t4");
  gpu.title = "a card";
  gpu.l2_cache_bytes.reset();
  gpu.datasheet.reset();
  gpu.cuda_name.clear();
  gpu.cuda_total_bytes.reset();
  const DescribedGpu described = describe(gpu, gpu_named("a100-80gb"));
  CHECK(described.description.name == "a card");
  CHECK(described.description.l2_cache_size == 41943040);
  CHECK(described.description.total_global_mem == usable_bytes(gpu));
  REQUIRE(described.assumed.size() == 1);
  CHECK(described.assumed[0] == "the L2 cache of a card is not in its file: taken as that of NVIDIA A100-SXM4-80GB");
}

TEST_CASE("a compute capability that is not listed has the limits of the one before it") {
  CHECK(limits_of(90).shared_per_sm == 228 * 1024);
  CHECK(limits_of(103).capability == 100);
  CHECK(limits_of(121).capability == 120);
  CHECK(limits_of(37).capability == 50);
}

TEST_CASE("a program is found as a shell finds it") {
  const Folder folder;
  folder.file("runs", "#!/bin/sh\n", true);
  folder.file("text", "no program\n");
  const std::string path = "/nowhere:" + folder.path.string();
  CHECK(find_program("runs", path).path == folder.path / "runs");
  CHECK(find_program("runs", path).executable);
  CHECK(find_program("text", path).path == folder.path / "text");
  CHECK(!find_program("text", path).executable);
  CHECK(find_program("absent", path).path.empty());
  CHECK(find_program((folder.path / "absent").string(), path).path.empty());
  CHECK(!find_program(folder.path.string(), path).executable);
  const std::vector<std::string> names = program_names(path);
  CHECK(std::ranges::find(names, "runs") != names.end());
}

TEST_CASE("programs that the runtime cannot serve are told apart") {
  const Folder folder;
  const std::string marks = "..cudaErrorCudartUnloading../cudart.shm.%x.%x..";
  CHECK(linkage_of("/bin/sh") == Linkage::replaceable);
  CHECK(linkage_of(folder.file("script", "#!/bin/sh\n" + marks)) == Linkage::replaceable);
  CHECK(linkage_of(folder.file("empty", "")) == Linkage::replaceable);
  CHECK(linkage_of(folder.path / "absent") == Linkage::replaceable);
  CHECK(linkage_of(folder.file("short", std::string("\177ELF\2", 5))) == Linkage::static_program);
  CHECK(linkage_of(folder.file("static", elf_with({PT_LOAD}, ""))) == Linkage::static_program);
  CHECK(linkage_of(folder.file("pie", elf_with({PT_LOAD, PT_DYNAMIC}, ""))) == Linkage::static_program);
  CHECK(linkage_of(folder.file("plain", elf_with({PT_INTERP, PT_DYNAMIC}, "cudaMalloc"))) == Linkage::replaceable);
  CHECK(linkage_of(folder.file("cudart", elf_with({PT_INTERP, PT_DYNAMIC}, marks))) == Linkage::static_cudart);
}

TEST_CASE("the environment is extended, never replaced") {
  const std::vector<std::string> before = {"LD_PRELOAD=libmine.so", "PYTHONPATH=/a:/b", "OTHER=x y", "RANK=7",
                                           "PATH=/bin"};
  const std::vector<std::string> after = session_environment(before, "/r", "/s", {});
  CHECK(variable(after, "GPUPLAN_SHADOW_SESSION") == "/s");
  CHECK(variable(after, "LD_PRELOAD") == "/r/libgpuplan_shadow.so:libmine.so");
  CHECK(variable(after, "LD_LIBRARY_PATH") == "/r");
  CHECK(variable(after, "PYTHONPATH") == "/r/python:/a:/b");
  CHECK(variable(after, "PATH") == "/r/bin:/bin");
  CHECK(variable(after, "OTHER") == "x y");
  CHECK(variable(after, "RANK") == "7");
  // The dynamic linker takes spaces for separators in LD_PRELOAD only.
  const std::vector<std::string> spaced = session_environment({}, "/a folder", "/s", {});
  CHECK(variable(spaced, "LD_PRELOAD") == "libgpuplan_shadow.so");
  CHECK(variable(spaced, "LD_LIBRARY_PATH") == "/a folder");
}

TEST_CASE("a program's own flags of XLA stay, and XLA builds no CUDA graphs") {
  const auto flags = [](const std::vector<std::string>& before) {
    return variable(session_environment(before, "/r", "/s", {}), "XLA_FLAGS");
  };
  CHECK(flags({}) == "--xla_gpu_enable_command_buffer=");
  CHECK(flags({"XLA_FLAGS=--xla_dump_to="}) == "--xla_dump_to= --xla_gpu_enable_command_buffer=");
  CHECK(flags({"XLA_FLAGS=--xla_gpu_enable_command_buffer=FUSION"}) == "--xla_gpu_enable_command_buffer=FUSION");
}

TEST_CASE("an imagined rank finds what torchrun would tell it") {
  Settings settings;
  settings.peers = Peers::imagined;
  settings.world = 1024;
  settings.rank = 1023;
  const std::vector<std::string> variables = session_environment({"RANK=7"}, "/r", "/s", settings);
  CHECK(variable(variables, "RANK") == "1023");
  CHECK(variable(variables, "WORLD_SIZE") == "1024");
  CHECK(variable(variables, "LOCAL_RANK") == "0");
  CHECK(!variable(variables, "MASTER_PORT").empty());
}

TEST_CASE("a session's directory holds the settings and goes with the session") {
  std::string path;
  {
    Settings settings;
    settings.gpu.name = "Tesla T4";
    const SessionDirectory session(settings);
    path = session.path();
    std::ifstream file(path + "/session");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK(read_settings(text).gpu.name == "Tesla T4");
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("a command's end is its own") {
  CHECK(run_shell("exit 0").status == 0);
  CHECK(run_shell("exit 41").status == 41);
  CHECK(run_shell("kill -SEGV $$").signal == SIGSEGV);
  CHECK(run_shell("kill -KILL $$").signal == SIGKILL);
  CHECK(!run_shell("kill -KILL $$").by_request);
  CHECK(run_shell("test \"$PATH\" = /usr/bin:/bin && ! test -e \"$HOME\"").status == 0);
  CHECK_THROWS_AS(run_command("/bin/absent", {"absent"}, {}, [] {}), std::system_error);
}

TEST_CASE("a command finds SIGPIPE as programs expect it") {
  // With SIGPIPE ignored, `yes` would complain and go on.
  CHECK(run_shell("yes | head -n 1 >/dev/null").status == 0);
}

TEST_CASE("signals are passed on, and the command's answer awaited") {
  bool sent = false;
  const auto terminate = [&] {
    if (!sent) kill(getpid(), SIGTERM);
    sent = true;
  };
  const Ending caught = run_shell("trap 'exit 9' TERM; while :; do sleep 0.1; done", terminate);
  CHECK(caught.status == 9);
  CHECK(caught.by_request);
  sent = false;
  CHECK(run_shell("sleep 100", terminate).signal == SIGTERM);
}

TEST_CASE("nothing that a command started outlives it") {
  const Folder folder;
  const std::string pid = (folder.path / "pid").string();
  const Ending ending = run_shell("setsid sleep 100 & echo $! >" + pid + "; exit 3");
  CHECK(ending.status == 3);
  pid_t stray = 0;
  std::ifstream(pid) >> stray;
  REQUIRE(stray > 0);
  CHECK(kill(stray, 0) == -1);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left, dead or alive
}

}  // namespace
}  // namespace gpuplan::shadow

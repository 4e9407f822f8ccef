// How files are read and written: nothing that was there is lost, nothing that sends nothing is waited for.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "estimator/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tools/files/read_input.h"
#include "tools/files/write_file.h"
#include "tools/options/kept_file.h"
#include "tools/process/read_source.h"

using namespace gpuplan;
using tests::Folder;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::string text_in(const std::string& path) { return read_all(path, {1 << 20, "which no test needs"}); }

unsigned mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

// Opens a FIFO, which waits for its reader, and sends the parts with pauses between them.
std::thread sender(const std::string& fifo, std::vector<std::string> parts, std::chrono::milliseconds pause = 0ms) {
  return std::thread([fifo, parts = std::move(parts), pause] {
    std::ofstream out(fifo, std::ios::binary);
    for (const std::string& part : parts) {
      std::this_thread::sleep_for(pause);
      out << part << std::flush;
    }
  });
}

}  // namespace

TEST_CASE("files: what is written takes the place of the old file, with its mode") {
  const Folder folder;
  const std::string old = folder.with("report.json", "old");
  REQUIRE(::chmod(old.c_str(), 0640) == 0);
  struct stat before {};
  REQUIRE(::stat(old.c_str(), &before) == 0);
  write_file(old, "new");
  struct stat after {};
  REQUIRE(::stat(old.c_str(), &after) == 0);
  CHECK(text_in(old) == "new");
  CHECK(mode_of(old) == 0640);
  CHECK(after.st_ino != before.st_ino);  // another file, moved there
  CHECK(folder.files() == 1);
}

TEST_CASE("files: a new file has the mode that the user's mask leaves") {
  const Folder folder;
  const mode_t mask = ::umask(0027);
  write_file(folder / "new.csv", "text");
  ::umask(mask);
  CHECK(mode_of(folder / "new.csv") == 0640);
}

TEST_CASE("files: a failure between two parts leaves the old file and nothing beside it") {
  const Folder folder;
  const std::string old = folder.with("report.json", "old");
  const auto half = [](const auto& write) {
    write("half of ");
    throw Error("the other half cannot be had");
  };
  CHECK_THROWS_AS(write_file(old, half), Error);
  CHECK(text_in(old) == "old");
  CHECK_THROWS_AS(write_file(folder / "new.json", half), Error);
  CHECK(folder.files() == 1);
}

TEST_CASE("files: a symbolic link stays, and its target is written, there or not") {
  const Folder folder;
  const std::string target = folder.with("target.json", "old");
  fs::create_symlink("target.json", folder / "link.json");
  fs::create_symlink(folder / "link.json", folder / "link-to-it.json");
  write_file(folder / "link-to-it.json", "new");
  CHECK(text_in(target) == "new");
  CHECK(fs::is_symlink(folder / "link.json"));
  CHECK(fs::is_symlink(folder / "link-to-it.json"));
  fs::create_symlink("nowhere.json", folder / "dangling.json");
  write_file(folder / "dangling.json", "made");
  CHECK(text_in(folder / "nowhere.json") == "made");
  fs::create_symlink("round", folder / "round");
  CHECK_THROWS_WITH_AS(write_file(folder / "round", "text"), doctest::Contains("symbolic links"), Error);
}

TEST_CASE("files: a pipe and what is open already are written through") {
  const Folder folder;
  const std::string fifo = folder.fifo("pipe");
  std::string received;
  std::thread reader([&] { received = text_in(fifo); });
  while (!fs::exists(fifo)) std::this_thread::yield();
  write_file(fifo, "through");
  reader.join();
  CHECK(received == "through");
  CHECK(fs::is_fifo(fifo));

  const std::string log = folder.with("log", "first,");
  const int open = ::open(log.c_str(), O_WRONLY | O_APPEND);
  write_file("/dev/fd/" + std::to_string(open), "second,");
  write_file("/proc/self/fd/" + std::to_string(open), "third");
  ::close(open);
  CHECK(text_in(log) == "first,second,third");
  CHECK_THROWS_WITH_AS(write_file("/dev/full", "text"), doctest::Contains("No space left"), Error);
}

TEST_CASE("files: what is write-protected or a directory is not replaced") {
  const Folder folder;
  CHECK_THROWS_WITH_AS(write_file(folder / ".", "text"), doctest::Contains("directory"), Error);
  CHECK_THROWS_WITH_AS(write_file(folder / "no/such.json", "text"), doctest::Contains("No such file"), Error);
  CHECK_FALSE(can_be_written(folder / "no/such.json"));
  CHECK(can_be_written(folder / "such.json"));
  if (::geteuid() == 0) return;  // root may write to everything
  const std::string file = folder.with("protected.json", "old");
  ::chmod(file.c_str(), 0400);
  CHECK_FALSE(can_be_written(file));
  CHECK_THROWS_WITH_AS(write_file(file, "text"), doctest::Contains("Permission denied"), Error);
  // Its folder takes no other file: it is written in place.
  ::chmod(file.c_str(), 0600);
  ::chmod((folder / ".").c_str(), 0500);
  write_file(file, "a longer text");
  CHECK(text_in(file) == "a longer text");
  write_file(file, "short");
  CHECK(text_in(file) == "short");
  ::chmod((folder / ".").c_str(), 0700);
}

TEST_CASE("files: what others write to as well is appended to") {
  const Folder folder;
  append_to_file(folder / "summary.md", "one\n");
  append_to_file(folder / "summary.md", "two\n");
  CHECK(text_in(folder / "summary.md") == "one\ntwo\n");
}

TEST_CASE("files: a pipe is read to its end, however it comes") {
  const Folder folder;
  const std::string fifo = folder.fifo("pipe");
  CHECK(is_stream(fifo));
  CHECK(is_stream("-"));
  CHECK_FALSE(is_stream(folder / "."));
  CHECK_FALSE(is_stream(folder / "nothing"));
  std::thread thread = sender(fifo, {"gpu", "", "plan: 1\n"}, 20ms);
  CHECK(text_in(fifo) == "gpuplan: 1\n");
  thread.join();
}

TEST_CASE("files: a pipe that sends nothing is given up, before its first byte and behind it") {
  const Folder folder;
  const std::string fifo = folder.fifo("pipe");
  const SizeLimit limit{100, "which no test needs"};
  const auto wait = [&] { read_all(fifo, limit, 50ms); };
  CHECK_THROWS_WITH_AS(wait(), doctest::Contains("nothing came from"), Error);  // nobody opens it
  const int silent = ::open(fifo.c_str(), O_RDWR);                              // nor writes to it
  CHECK_THROWS_WITH_AS(wait(), doctest::Contains("nothing came from"), Error);
  REQUIRE(::write(silent, "start", 5) == 5);
  try {
    wait();
    FAIL("the rest of a text was not waited for");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
  }
  ::close(silent);
  // It is the silence that is limited, not the whole.
  std::thread thread = sender(fifo, {"a", "b", "c", "d", "e", "f"}, 30ms);
  CHECK(read_all(fifo, limit, 100ms) == "abcdef");
  thread.join();
}

TEST_CASE("files: what has no end is larger than anything that is read") {
  CHECK_THROWS_WITH_AS(read_all("/dev/zero", {std::size_t{4} << 20, "which no model is"}),
                       doctest::Contains("/dev/zero is larger than 4 MiB, which no model is"), Error);
  const Folder folder;
  CHECK_THROWS_WITH_AS(read_all(folder / ".", {1, ""}), doctest::Contains("it is a directory"), Error);
}

TEST_CASE("files: a pipe whose kind was looked at has lost nothing") {
  const Folder folder;
  const std::string fifo = folder.fifo("pipe");
  CHECK(read_start(fifo, 10) == "");
  std::thread thread = sender(fifo, {std::string(kStartBytes, '#'), "\ngpuplan: 1\n"});
  const NamedFile input = open_input(fifo);
  thread.join();
  CHECK(start_of(input) == std::string(kStartBytes, '#'));
  CHECK(text_of(input)->text == std::string(kStartBytes, '#') + "\ngpuplan: 1\n");
  CHECK_THROWS_WITH_AS(text_of(input, {100, "which no test needs"}), doctest::Contains("larger"), Error);
}

TEST_CASE("files: what is no report is known by its content") {
  const Folder folder;
  const auto kind = [&](const std::string& text, const std::string& name = "file") {
    return kept_kind(folder.with(name, text));
  };
  CHECK(kind("# ours\ngpuplan: 1\nname: mlp\nlayers:\n") == "a model");
  CHECK(kind("extends: zoo:mlp\n") == "a model");
  CHECK(kind("gpuplan: [what is no YAML\n") == "a model");
  CHECK(kind("{\"gpuplan\": 1, \"layers\": []}") == "a model");
  CHECK(kind("{\"model_type\": \"gpt2\"}") == "a model");
  CHECK(kind("gpuplan: 1\nchecks:\n  - model: zoo:mlp\n") == "a budget");
  CHECK(kind("gpuplan-trace: 1\n") == "a trace");
  CHECK(kind("# action\tsegment+offset\tbytes\n= forward\nsegment_alloc\t0+0\t2097152\n") == "a trace");
  CHECK(kind("\x1f\x8b\x08") == "a trace");
  CHECK(kind("#!/bin/sh\n") == "a script");
  CHECK(kind("#!/usr/bin/env python3\nimport torch\n", "train.csv") == "a script");
  CHECK(kind("PK\x03\x04", "model.pt") == "a zip archive, as torch.save and torch.export write");

  CHECK(kind("") == "");
  CHECK(kind("#!/bin/bash\n# Written by gpuplan fit --emit slurm for a GPU of the kind t4.\n") == "");
  CHECK(kind("{\n  \"schema\": \"gpuplan.plan/1\",\n  \"tool\": {\"name\": \"gpuplan\"},\n  \"layers\": []\n}") == "");
  CHECK(kind("{\"runs\": [{\"tool\": {\"driver\": {\"name\": \"gpuplan\"}}}]}") == "");
  CHECK(kind("name,type,at\nlayers,Linear,0\n") == "");
  CHECK(kind("mlp · train · batch 64\n\n  Peak  12 MiB\n") == "");
  CHECK(kind("<svg></svg>") == "");
  CHECK(kept_kind(folder / "nothing") == "");
  CHECK(kept_kind(folder.fifo("pipe")) == "");

  const std::string model = folder.with("model.yaml", "gpuplan: 1\n");
  CHECK_THROWS_WITH_AS(refuse_to_replace("-o", model, false), doctest::Contains("would overwrite a model"), Error);
  CHECK_NOTHROW(refuse_to_replace("-o", model, true));
  CHECK_NOTHROW(refuse_to_replace("--learn", folder.with("a.trace", "gpuplan-trace: 1\n"), false, "a trace"));
}

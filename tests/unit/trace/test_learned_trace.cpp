// Traces learned from runs at several values: what a size's function is, how lists of events are aligned, the file, and
// its replay. Expected values are derived beside each case.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>

#include "estimator/report/trace_report.h"
#include "estimator/trace/align_runs.h"
#include "estimator/trace/learned_text.h"
#include "estimator/trace/plan_trace.h"

namespace gpuplan {
namespace {

using Values = std::vector<std::vector<std::int64_t>>;

const TraceVariable kBatch{.name = "batch", .values = {4, 8, 12}};
const TraceVariable kSeq{.name = "seq", .values = {128, 256, 384}};

std::optional<FittedSize> fit(const std::vector<TraceVariable>& variables,
                              const std::function<std::int64_t(const std::vector<std::int64_t>&)>& size) {
  const Values runs = runs_to_learn(variables);
  std::vector<std::int64_t> points;
  for (const auto& run : runs) points.push_back(size(run));
  return fit_size(variables, runs, points);
}

std::string fitted_text(const std::vector<TraceVariable>& variables,
                        const std::function<std::int64_t(const std::vector<std::int64_t>&)>& size) {
  const auto fitted = fit(variables, size);
  return fitted ? text_of(fitted->function, variables) + (fitted->checked ? "" : "?") : "none";
}

// A run of the lines that the hook writes; `end` is added.
RecordedRun run_of(std::int64_t batch, const std::string& lines) {
  RecordedRun run = read_recorded_run("batch=" + std::to_string(batch), lines + "end\t0\t0\t0\t0\n");
  run.values = {batch};
  return run;
}

LearnedTrace learned(const std::vector<RecordedRun>& runs) {
  LearnedTrace trace;
  trace.command = "python train.py {batch}";
  trace.gpu = "h200", trace.gpu_title = "NVIDIA H200", trace.torch = "2.15.0";
  trace.capability_major = 9;
  trace.context_bytes = 1000;
  trace.variables = {{.name = "batch", .values = {}}};
  for (const RecordedRun& run : runs) {
    trace.variables[0].values.push_back(run.values[0]);
    trace.runs.push_back(run.values);
  }
  align_runs(runs, trace);
  return trace;
}

LearnedTrace read_back(const std::string& text) { return read_learned_trace(Source{"t.trace", text}); }

std::string body(const LearnedTrace& trace) {
  const std::string text = write_learned_trace(trace);
  CHECK(write_learned_trace(read_back(text)) == text);
  const std::size_t begin = text.find("\n= ") + 1;
  return text.substr(begin, text.rfind("end ") - begin);
}

std::string refusal(const std::string& text) {
  try {
    read_back(text);
  } catch (const Error& error) {
    return error.message() + " at " + std::to_string(error.line());
  }
  return "read";
}

}  // namespace

TEST_CASE("a size that grows with the batch is an affine function, checked by the third value") {
  CHECK(fitted_text({kBatch}, [](const auto& v) { return 100 * v[0] + 7; }) == "100*batch+7");
  CHECK(fitted_text({kBatch}, [](const auto&) { return 512; }) == "512");
  CHECK(fitted_text({kBatch}, [](const auto& v) { return v[0] / 4 * 3; }) == "(3*batch)/4");
  CHECK(fitted_text({kBatch}, [](const auto& v) { return 9000 - 10 * v[0]; }) == "-10*batch+9000");
  // A square is no function of a batch: through 4 and 12 goes 16 * batch - 48, which has 80 at 8, not 64.
  CHECK(fitted_text({kBatch}, [](const auto& v) { return v[0] * v[0]; }) == "none");
}

TEST_CASE("a size is quadratic in other variables, which three values determine and a fourth one checks") {
  const auto square = [](const auto& v) { return 4 * v[0] * v[0]; };
  CHECK(fitted_text({kSeq}, square) == "4*seq^2?");
  CHECK(fitted_text({{.name = "seq", .values = {128, 256, 384, 512}}}, square) == "4*seq^2");
  CHECK(fitted_text({kSeq}, [](const auto& v) { return 8 * v[0]; }) == "8*seq");  // three points on a line
  CHECK(fitted_text({{.name = "seq", .values = {128, 256, 384, 512}}},
                    [](const auto& v) { return v[0] * v[0] * v[0]; }) == "none");
}

TEST_CASE("two variables: the runs that determine affine times quadratic, and those that check it") {
  // 2 batches by 3 lengths, the third batch at the middle length.
  CHECK(runs_to_learn(std::vector{kBatch, kSeq}) ==
        Values{{4, 128}, {4, 256}, {4, 384}, {12, 128}, {12, 256}, {12, 384}, {8, 256}});
  CHECK(fitted_text({kBatch, kSeq}, [](const auto& v) { return 8 * v[0] * v[1] + 12; }) == "8*batch*seq+12");
  CHECK(fitted_text({kBatch, kSeq}, [](const auto& v) { return 2 * v[0] * v[1] * v[1] + 3 * v[1] + v[0]; }) ==
        "2*batch*seq^2+1*batch+3*seq?");
  CHECK(fitted_text({kBatch, kSeq}, [](const auto& v) { return v[0] * v[0] * v[1]; }) == "none");
  const TraceVariable longer{.name = "seq", .values = {128, 256, 384, 512}};
  CHECK(fitted_text({kBatch, longer}, [](const auto& v) { return 2 * v[0] * v[1] * v[1]; }) == "2*batch*seq^2");
}

TEST_CASE("functions as text, and back") {
  const std::vector<TraceVariable> both = {kBatch, kSeq};
  for (const char* text : {"0", "7", "-3*batch+9", "(3*batch+8)/4", "2*batch*seq^2+1*batch+3*seq-5", "4*seq^2"}) {
    const auto function = parse_size_function(text, both);
    REQUIRE(function);
    CHECK(text_of(*function, both) == text);
  }
  for (const char* text : {"", "batch", "4*", "4*batch*batch", "4*batch^2^2", "4*seq^3", "4+", "+4", "(4*batch)/1",
                           "(4*batch", "4*batch/2", "4*bat", "1+1", "99999999999999999999", "4 "})
    CHECK_MESSAGE(!parse_size_function(text, both), text);
  const auto eighths = *parse_size_function("(3*batch+8)/4", both);
  CHECK(size_at(eighths, std::vector<std::int64_t>{4, 1}) == 5);
  CHECK(size_at(eighths, std::vector<std::int64_t>{5, 1}) == 6);  // 23 / 4, rounded up
  CHECK_FALSE(is_whole_at(eighths, std::vector<std::int64_t>{5, 1}));
  CHECK_THROWS_AS(size_at(*parse_size_function("-3*batch+9", both), std::vector<std::int64_t>{4, 1}), Error);
  CHECK_THROWS_AS(
      size_at(*parse_size_function("9000000000*batch", both), std::vector<std::int64_t>{1'000'000'000'000, 1}), Error);
}

TEST_CASE("runs of the same events become one list; steps that repeat are written once") {
  const auto run = [](std::int64_t batch) {
    const std::string bytes = std::to_string(100 * batch);
    std::string lines = "a\t4096\t0\tempty\tm.py:1 f\n";
    for (int step = 1; step <= 3; ++step) {
      lines += "m\t" + std::to_string(step) + "\tforward\na\t" + bytes + "\t0\tconv\tm.py:2 g\n";
      lines += "a\t64\t0\tconv\tm.py:2 g\n";
      lines += "m\t" + std::to_string(step) + "\tbackward\nf\t" + std::to_string(2 * step) + "\nf\t" +
               std::to_string(2 * step - 1) + "\n";
    }
    return run_of(batch, lines);
  };
  const LearnedTrace trace = learned({run(4), run(8), run(12)});
  CHECK(body(trace) ==
        "= 0 build\n"
        "+ empty.1 4096 m.py:1 f\n"
        "= 1 forward\n"
        "+ conv.1 100*batch m.py:2 g\n"
        "+ conv.2 64 m.py:2 g\n"
        "= 1 backward\n"
        "- conv.2 conv.1\n"
        "= 2 as 1\n"
        "= 3 as 1\n");
  // 4096 stays, 6400 and 64 come and go: rounded up to 512 each, 4096 + 6656 + 512.
  const TracePlan plan = plan_trace(trace, std::vector<std::int64_t>{64}, {});
  CHECK(plan.peak.requested_bytes == 4096 + 6400 + 64);
  CHECK(plan.peak.allocated_bytes == 4096 + 6656 + 512);
  CHECK(plan.peak.reserved_bytes == 2 << 20);
  CHECK(plan.rows.size() == 7);
  CHECK(plan.rows.back().live.requested_bytes == 4096);
  CHECK(plan.at.step == 1);
  CHECK(plan.at.event == 3);
  CHECK(plan.notes == std::vector<std::string>{"batch 64 is outside the recorded range, 4 to 12"});
}

TEST_CASE("an allocation that only some runs make is marked, and taken where the nearest run has it") {
  const auto run = [](std::int64_t batch, bool more) {
    const std::string bytes = std::to_string(1000 * batch);
    std::string lines = "a\t" + bytes + "\t0\tbackward\t\n";
    if (more) lines += "a\t77\t0\tbackward\t\n";
    lines += "a\t512\t0\tbackward\t\n";
    lines += more ? "f\t1\nf\t0\nf\t2\n" : "f\t0\nf\t1\n";
    return run_of(batch, lines);
  };
  const LearnedTrace trace = learned({run(4, false), run(8, false), run(12, true)});
  CHECK(body(trace) ==
        "= 0 build\n"
        "+ backward.1 1000*batch\n"
        "+@3 backward.2 77\n"
        "+ backward.3 512\n"
        "-@3 backward.2\n"
        "- backward.1 backward.3\n");
  CHECK(plan_trace(trace, std::vector<std::int64_t>{8}, {}).peak.requested_bytes == 8512);
  CHECK(plan_trace(trace, std::vector<std::int64_t>{12}, {}).peak.requested_bytes == 12589);
  const TracePlan far = plan_trace(trace, std::vector<std::int64_t>{64}, {});
  CHECK(far.peak.requested_bytes == 64589);
  REQUIRE(far.notes.size() == 2);
  CHECK(far.notes[1] == "2 events happen at some values only: those of the nearest recorded run, batch=12, are used");
}

TEST_CASE("a script that compiles has code of its own for each value, and only the recorded ones are exact") {
  const auto run = [](std::int64_t batch) {
    return run_of(batch, "a\t" + std::to_string(100 * batch) + "\t0\tbuf0\tm.py:3 h\nf\t0\n");
  };
  LearnedTrace trace = learned({run(4), run(8), run(12)});
  trace.compiled = true;
  const LearnedTrace again = read_learned_trace({"compiled.trace", write_learned_trace(trace)});
  CHECK(again.compiled);
  CHECK(plan_trace(again, std::vector<std::int64_t>{8}, {}).notes.empty());
  CHECK(plan_trace(again, std::vector<std::int64_t>{6}, {}).notes ==
        std::vector<std::string>{"torch.compile makes other code for other values: only the recorded ones, batch=4, "
                                 "batch=8, batch=12, are exact"});
}

TEST_CASE("sizes that fit no function keep their points, between and beyond which they lie on a line") {
  const auto run = [](std::int64_t batch, std::int64_t bytes) {
    return run_of(batch, "a\t" + std::to_string(bytes) + "\t0\tworkspace\tm.py:3 h\nf\t0\n");
  };
  const LearnedTrace trace = learned({run(4, 1000), run(8, 5000), run(12, 6000)});
  CHECK(body(trace) == "= 0 build\n+ workspace.1 [1000,5000,6000] m.py:3 h\n- workspace.1\n");
  const auto requested = [&](std::int64_t batch) {
    return plan_trace(trace, std::vector<std::int64_t>{batch}, {}).peak.requested_bytes;
  };
  CHECK(requested(8) == 5000);
  CHECK(requested(6) == 3000);
  CHECK(requested(16) == 7000);
  CHECK(requested(1) == 1);  // the line is below 0 there
  CHECK(plan_trace(trace, std::vector<std::int64_t>{6}, {}).estimated_allocations == 1);
}

TEST_CASE("cuDNN's workspaces go by the convolution, where gpuplan's rule gives what was recorded") {
  // ResNet-50's layer1.0.conv2 forward on an H100: up to batch 32 a copy of the input, at 64 of the output, too
  // (tests/reference/h100/convolutions).
  const auto run = [](std::int64_t batch, std::int64_t bytes, bool named) {
    const std::string size = std::to_string(bytes);
    RecordedRun recorded = run_of(batch, "a\t" + size + "\t0\tkept\t\na\t" + size + "\t0\tconv\t\nf\t1\n");
    if (named)
      name_workspaces(recorded, size + "\tforward\t0\tnchw\t" + std::to_string(batch) +
                                    "\t64\t56\t56\t64\t3\t3\t56\t56\t1\t1\t1\t1\t1\t1\t1\n");
    return recorded;
  };
  const auto requested = [&](bool named) {
    const LearnedTrace trace = learned({run(4, 3'358'736, named), run(8, 6'570'000, named), run(12, 9'781'264, named)});
    CHECK(counts_of(trace).workspaces == (named ? 1 : 0));
    const std::string text = write_learned_trace(trace);
    CHECK(write_learned_trace(read_back(text)) == text);
    return plan_trace(trace, std::vector<std::int64_t>{64}, {}).peak.requested_bytes;
  };
  const std::int64_t on_the_line = 64 * 802'816 + 147'472;
  CHECK(requested(false) == 2 * on_the_line);
  CHECK(requested(true) == on_the_line + 102'908'051);
}

TEST_CASE("whatever becomes of a trace's text, it is read or refused") {
  std::ifstream file(GPUPLAN_SOURCE_DIR "/tests/fuzz/corpus/trace/everything.trace");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const LearnedTrace trace = read_back(text);
  CHECK(trace.tensors.size() == 9);
  CHECK(plan_trace(trace, std::vector<std::int64_t>{64, 512}, {}).rows.size() == 6);
  const auto survives = [](const std::string& damaged) {
    try {
      const LearnedTrace read = read_back(damaged);
      plan_trace(read, std::vector<std::int64_t>(read.variables.size(), 1'000'000), {});
    } catch (const Error&) {
    }
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    survives(text.substr(0, i));
    for (const char c : {'9', '-', ' ', '\n', '*'}) {
      std::string damaged = text;
      damaged[i] = c;
      survives(damaged);
    }
  }
}

TEST_CASE("runs that take other steps, and records that end early, are refused") {
  const RecordedRun one = run_of(4, "a\t8\t0\tx\t\nm\t1\tforward\na\t8\t0\tx\t\n");
  const RecordedRun other = run_of(8, "a\t8\t0\tx\t\nm\t1\tbackward\na\t8\t0\tx\t\n");
  CHECK_THROWS_WITH_AS(learned({one, other}),
                       "the runs take different steps: where batch=4 goes on with step 1 forward, batch=8 goes on with "
                       "step 1 backward",
                       Error);
  for (const char* lines : {"a\t8\t0\tx\t\n", "f\t0\nend\t0\t0\t0\t0\n", "a\t-8\t0\tx\t\n", "x\n", "a\t8\n",
                            "end\t0\t0\t0\t1\n", "end\t0\t0\t0\t0\ne\n", "m\t1\t\n"})
    CHECK_THROWS_AS(read_recorded_run("r", lines), Error);
}

TEST_CASE("a trace's file is refused with its line where it is not one") {
  const std::string head =
      "gpuplan-trace: 1\ncommand: c\ngpu: h200 9.0 NVIDIA H200\ntorch: 2.15.0\ncontext: 5\n"
      "run: batch=4 requested=1 allocated=2 reserved=3\nrun: batch=8 requested=1 allocated=2 reserved=3\noutside: 0\n";
  CHECK(refusal(head + "= 0 build\n+ a.1 4*batch x\n- a.1\nend 2\n") == "read");
  const std::pair<const char*, const char*> wrong[] = {
      {"= 0 build\n+ a.1 4*batc x\n", "this trace expects a size such as 4096*batch+8, not \"4*batc\" at 10"},
      {"= 0 build\n+ a.1 [1] x\n", "this trace expects a size such as 4096*batch+8, not \"[1]\" at 10"},
      {"= 0 build\n- a.1\n", "this trace frees \"a.1\", which is not allocated at 10"},
      {"= 0 build\n+ a.1 4\n+ a.1 4\n", "this trace allocates \"a.1\" again before it is free at 11"},
      {"= 0 build\n+@1 a.1 4\n- a.1\n", "this trace frees \"a.1\", which is not allocated at 11"},
      {"= 0 build\n+@3 a.1 4\n", "this trace expects runs after @, from 1 to 2 at 10"},
      {"= 0 build\n* a.1 4\n",
       "this trace expects an event here: + NAME SIZE PLACE, - NAME ..., !, or = STEP PHASE at 10"},
      {"= 0 build\n= 1 as 2\n", "this trace repeats a step that is not written out at 10"},
      {"= 1 forward\n= 0 build\n", "this trace goes back to an earlier step at 10"},
      {"= 1 forward\nend 0\n", "read"},
      {"= 1 forward\n!\nend 2\n", "this trace has 1 events, and its end says 2 at 11"},
      {"= 1 forward\nend 0\n!\n", "this trace continues after its end at 11"},
      {"= 1 forward\n!\n",
       "this trace is cut short: its last line says how many events it has, as in \"end 6402\" at 10"}};
  for (const auto& [text, message] : wrong) CHECK(refusal(head + text) == message);
  CHECK(refusal("layers:\n") == "t.trace: a trace begins with \"gpuplan-trace: 1\" at 0");
  CHECK(refusal("gpuplan-trace: 1\n= 0 build\n") == "this trace has no line \"run: ...\" before its events at 2");
}

TEST_CASE("a trace says which rank of several it is of") {
  const std::string start = "gpuplan-trace: 1\ncommand: c\ngpu: h200 9.0 NVIDIA H200\ntorch: 2.15.0\n";
  const std::string rest =
      "context: 5\nrun: batch=4 requested=1 allocated=2 reserved=3\noutside: 0\n= 0 build\nend 0\n";
  const auto of = [&](const std::string& line) { return refusal(start + line + rest); };
  const LearnedTrace trace = read_learned_trace(Source{"t.trace", start + "rank: 5 of 8\n" + rest});
  CHECK(trace.rank == 5);
  CHECK(trace.world == 8);
  CHECK(write_learned_trace(trace).find("\nrank: 5 of 8\n") != std::string::npos);
  CHECK(of("rank: 8 of 8\n") == "this trace expects a rank below how many there are at 5");
  CHECK(of("rank: 5 in 8\n") == "this trace expects a rank, such as \"0 of 8\" at 5");
  CHECK(of("rank: five\n") == "this trace expects a rank, not \"five\" at 5");
}

TEST_CASE("a trace whose texts look like its signs is read as it was written") {
  const std::string one =
      "gpuplan-trace: 1\ncommand:  c\ngpu:  9.0 \ntorch: \ncontext: 5\n"
      "run: b=4 requested=1 allocated=2 reserved=3\noutside: 0\n= 1 f\n+ a 4 stream=0 stream=1\n- a\nend 2\n";
  const LearnedTrace trace = read_back(one);
  CHECK(trace.tensors[0].stream == 0);
  CHECK(trace.words[trace.tensors[0].place] == "stream=1");
  const LearnedTrace again = read_back(write_learned_trace(trace));
  CHECK(again.tensors[0].stream == 0);
  CHECK(again.words[again.tensors[0].place] == "stream=1");
  CHECK(again.command == " c");
}

TEST_CASE("control characters are in no trace, whatever a script was called") {
  const std::string head =
      "gpuplan-trace: 1\ncommand: c\ngpu: h200 9.0 NVIDIA H200\ntorch: 2.15.0\ncontext: 5\n"
      "run: batch=4 requested=1 allocated=2 reserved=3\noutside: 0\n";
  const std::string words = "this trace has a control character, or bytes that are no UTF-8 text at 9";
  for (const char* text : {"\x1b[31m", "\r\r", "\t", "\xc2\x9b", "\xff", "\xe2\x80\xae"})
    CHECK(refusal(head + "= 0 build\n+ a.1 4 x" + text + "\n- a.1\nend 2\n") == words);
  CHECK(refusal(head + "= 0 build\r\n+ a.1 4 x\r\n- a.1\r\nend 2\r\n") == "read");
  // A sign in a variable's name would be one of a size.
  for (const char* name : {"b^2", "b*c", "2", ")", "b,c"})
    CHECK(refusal("gpuplan-trace: 1\nrun: " + std::string(name) + "=4 requested=1 allocated=2 reserved=3\n") ==
          "this trace expects variables with names of letters at 2");
  // What is recorded may have any: it is cleaned, and then read.
  LearnedTrace trace = learned({run_of(4, "m\t1\tfor\rward\na\t8\t0\ta b\x1b\tm\x1b.py:1 f\n"),
                                run_of(8, "m\t1\tfor\rward\na\t8\t0\ta b\x1b\tm\x1b.py:1 f\n")});
  trace.command = "python -c 1\n2";
  trace.alloc_conf = "a\tb";
  const LearnedTrace again = read_back(write_learned_trace(trace));
  CHECK(again.command == "python -c 1 2");
  CHECK(again.alloc_conf == "a b");
  CHECK(again.sections.back().phase == "for ward");
  CHECK(again.words[again.tensors[0].name] == "a_b_");
  CHECK(again.words[again.tensors[0].place] == "m .py:1 f");
}

TEST_CASE("a phase of a trace is no markup in the table of a comment") {
  const std::string text =
      "gpuplan-trace: 1\ncommand: c\ngpu: h200 9.0 NVIDIA H200\ntorch: 2.15.0\ncontext: 5\n"
      "run: batch=4 requested=1 allocated=2 reserved=3\noutside: 0\n= 1 <img src=x>|@org\n+ a.1 4 x\n- a.1\nend 2\n";
  const LearnedTrace trace = read_back(text);
  TraceReport report;
  report.trace = &trace;
  report.plan = plan_trace(trace, std::vector<std::int64_t>{4}, {});
  const std::string md = trace_report_md(report), table = md.substr(md.rfind("```"));
  CHECK(table.find("<img") == std::string::npos);
  CHECK(table.find("&lt;img src=x&gt;\\|@\xe2\x80\x8borg") != std::string::npos);
}

TEST_CASE("a device without the memory: the run fails where PyTorch would") {
  const auto run = [](std::int64_t batch) {
    return run_of(batch, "m\t1\tforward\na\t" + std::to_string(batch << 20) + "\t0\tlinear\tm.py:4 k\n");
  };
  const LearnedTrace trace = learned({run(4), run(8), run(12)});
  const TracePlan plan = plan_trace(trace, std::vector<std::int64_t>{64}, {}, 32 << 20);
  REQUIRE(plan.out_of_memory);
  CHECK(plan.out_of_memory->reading.requested_bytes == 64 << 20);
  CHECK(plan.out_of_memory->place.phase == "forward");
  CHECK(plan.out_of_memory->place.line == "m.py:4 k");
}

TEST_CASE("the form of a trace, as it is documented, is the one that is read") {
  const std::string form(trace_form());
  const auto says = [&](std::string_view part) { return form.find(part) != std::string::npos; };
  CHECK(says(kTraceFirstLine));
  LearnedTrace trace;
  trace.variables = {kBatch, kSeq};
  trace.runs = {{4, 128}, {8, 256}, {12, 384}};
  for (const char* size : {"3211264*batch", "[4096,0,9216]", "4*batch*seq^2?", "3*batch*seq^2+4*seq-512"}) {
    CHECK_MESSAGE(says(size), size);
    CHECK_MESSAGE(parse_learned_size(size, trace), size);
  }
}

}  // namespace gpuplan

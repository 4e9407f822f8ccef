// loss: as a list of entries, for losses of several outputs.
#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "tests/support/lower_calls.h"
#include "tests/support/test_spec.h"

using namespace gpuplan;
using namespace gpuplan::testing;

namespace {

RunConfig run_in(Mode mode) {
  RunConfig run;
  run.batch = 4;
  run.mode = mode;
  return run;
}

Graph graph_in(Mode mode, const std::string& text) {
  return build_graph(read_spec(text), make_catalog(), run_in(mode), assumed_gpu());
}

const std::string kModel =
    "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n"
    "  - body: Linear(8, 16)\n"
    "  - {name: aux, op: \"Linear(16, 10)\", when: train}\n"
    "  - {name: head, op: \"Linear(16, 10)\", from: body}\n";

}  // namespace

TEST_CASE("a loss may be of several outputs") {
  const std::string named = kModel +
                            "loss:\n"
                            "  - main: CrossEntropyLoss()\n"
                            "  - {name: second, op: CrossEntropyLoss(), from: aux, tie: main}\n"
                            "  - part: Mul(other=0.3)\n"
                            "  - {op: Add(), from: [main, part]}\n";
  const Graph train = graph_in(Mode::train, named);
  // The input and the one tensor of targets that both losses read.
  CHECK(train.inputs.size() == 2);
  CHECK(train.tensors[static_cast<std::size_t>(train.loss)].shape == Shape{});
  CHECK(train.loss_begin == graph_in(Mode::train, kModel).loss_begin);
  CHECK(train.forward_ops.back().kind == Operator::add);
  const Graph infer = graph_in(Mode::infer, named);
  CHECK(infer.loss == kNone);
  CHECK(infer.forward_ops.size() == graph_in(Mode::infer, kModel).forward_ops.size());
  // Both heads are trained: a gradient for each of six weights.
  CHECK(train.parameters.size() == 6);
  const Model model = read_spec(named);
  CHECK(canonical_yaml(read_spec(canonical_yaml(model))) == canonical_yaml(model));
  CHECK(model.losses.size() == 4);
}

TEST_CASE("losses have targets of their own unless they are tied") {
  const std::string apart = "loss:\n  - a: CrossEntropyLoss()\n  - {name: b, op: CrossEntropyLoss(), from: aux}\n";
  CHECK(graph_in(Mode::train, kModel + apart + "  - {op: Add(), from: [a, b]}\n").inputs.size() == 3);
  const std::string unlike =
      "loss:\n  - a: CrossEntropyLoss()\n  - {name: b, op: MSELoss(), from: aux, tie: a}\n  - {op: Add(), from: [a, "
      "b]}\n";
  CHECK_THROWS_WITH_AS(graph_in(Mode::train, kModel + unlike), doctest::Contains("its targets are"), Error);
}

TEST_CASE("errors of a list of losses") {
  CHECK(contains(error_of(kModel + "loss: []\n"), "a loss without entries"));
  CHECK(contains(error_of(kModel + "loss:\n  - {op: CrossEntropyLoss(), from: axu}\n"), "aux"));
  CHECK_THROWS_WITH_AS(graph_in(Mode::train, kModel + "loss:\n  - Mul(other=2.0)\n"),
                       doctest::Contains("the loss must be one floating-point number"), Error);
  CHECK_THROWS_WITH_AS(graph_in(Mode::train, kModel + "  - CrossEntropyLoss()\n"), doctest::Contains("unknown layer"),
                       Error);
  const std::string tied = "loss:\n  - {name: b, op: CrossEntropyLoss(), tie: head}\n";
  CHECK_THROWS_WITH_AS(graph_in(Mode::train, kModel + tied), doctest::Contains("no earlier loss"), Error);
}

// torch: "grad can be implicitly created only for scalar outputs".
TEST_CASE("a loss of each target is for a list that makes one number of them") {
  const auto with = [](const std::string& loss) { return graph_in(Mode::train, kModel + loss); };
  CHECK_THROWS_WITH_AS(with("loss: CrossEntropyLoss(reduction='none')\n"),
                       doctest::Contains("the loss must be one floating-point number, not [4]"), Error);
  const Graph graph = with("loss:\n  - CrossEntropyLoss(reduction='none')\n  - Mean()\n");
  CHECK(graph.tensors[static_cast<std::size_t>(graph.loss)].shape == Shape{});
}

// `del out` before backward: the output object goes with all that it names, as the same tensor does alone.
TEST_CASE("with --loop loss_only nothing that the output names is alive in backward") {
  const std::string model = "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - logits: Linear(8, 1000)\n";
  const std::string named = model +
                            "  - rows: View(-1, 1000)\n  - {op: ReturnedState(), from: logits}\n"
                            "  - {op: Identity(), from: rows}\n";
  RunConfig run = run_in(Mode::train);
  run.loop = Loop::loss_only;
  const std::string loss = "loss: CrossEntropyLoss()\n";
  const Report one = plan(read_spec(model + loss), make_catalog(), run);
  const Report two = plan(read_spec(named + loss), make_catalog(), run);
  REQUIRE_EQ(one.phases.size(), two.phases.size());
  for (std::size_t i = 0; i < one.phases.size(); ++i) {
    CHECK_EQ(one.phases[i].peak.requested_bytes, two.phases[i].peak.requested_bytes);
    CHECK_EQ(one.phases[i].live.requested_bytes, two.phases[i].live.requested_bytes);
  }
}

// transformers' heads for questions compute two losses of their logits, of labels cut to the positions, in forward.
TEST_CASE("own_loss: is a list that the model's forward computes") {
  const std::string list =
      "  - a: CrossEntropyLoss(ignore_index=9, clamp=9)\n"
      "  - {name: b, op: \"CrossEntropyLoss(ignore_index=9, clamp=9)\", from: aux}\n"
      "  - {op: Add(), from: [a, b]}\n";
  const std::string text = kModel + "own_loss:\n" + list;
  const Graph own = graph_in(Mode::train, text), other = graph_in(Mode::train, kModel + "loss:\n" + list);
  CHECK(own.loss_begin == static_cast<std::int32_t>(own.forward_ops.size()));
  CHECK(other.loss_begin < own.loss_begin);
  CHECK(own.nodes.size() == other.nodes.size());
  CHECK(std::ranges::count(own.forward_ops, Operator::clamp, &Op::kind) == 2);
  CHECK(canonical_yaml(read_spec(canonical_yaml(read_spec(text)))) == canonical_yaml(read_spec(text)));

  const std::string one =
      "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - head: Linear(8, 10)\nown_loss:\n  - CrossEntropyLoss()\n";
  RunConfig run = run_in(Mode::infer);
  run.labels = true;  // the output has its logits and its loss
  CHECK(build_graph(read_spec(one), make_catalog(), run, assumed_gpu()).kept_with_output.size() == 1);
  CHECK(contains(error_of(kModel + "loss: mean\nown_loss:\n" + list), "loss: or own_loss:, not both"));
  CHECK(contains(error_of(kModel + "own_loss: mean\n"), "own_loss must be a list of entries"));
}

// CLIP compares texts with images: each is the class of its own.
TEST_CASE("a loss may have targets that the model made") {
  const std::string model =
      "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n"
      "  - {name: places, op: \"Zeros(_, dtype='int64')\"}\n"
      "  - {name: head, op: \"Linear(8, 10)\", from: input}\n"
      "own_loss:\n";
  const std::string given = model + "  - {op: CrossEntropyLoss(), from: [head, places]}\n";
  const Graph train = graph_in(Mode::train, given);
  CHECK(train.inputs.size() == 1);  // none is a target
  CHECK(graph_in(Mode::train, model + "  - {op: CrossEntropyLoss(), from: head}\n").inputs.size() == 2);
  CHECK(std::ranges::count(train.forward_ops, Operator::nll_loss_forward, &Op::kind) == 1);
  const std::string floating = "  - {op: CrossEntropyLoss(), from: [head, head]}\n";
  CHECK_THROWS_WITH_AS(graph_in(Mode::train, model + floating), doctest::Contains("expects targets [4] of int64"),
                       Error);
}

// {"y": y, "loss": loss}: the output object and a name of the loop have the same tensor, which takes its memory once,
// as where the loop alone names it.
TEST_CASE("a loss that the output names, too, is freed once") {
  const std::string head = "gpuplan: 1\ninput: {shape: [8]}\nlayers:\n  - y: Linear(8, 8)\n";
  const std::string named = head +
                            "  - {op: Mean(), from: y}\n  - returned_state: ReturnedState()\n"
                            "  - {op: Identity(), from: y}\nown_loss:\n  - {op: Identity(), from: returned_state}\n";
  const std::string alone = head + "own_loss:\n  - Mean()\n";
  for (const std::int64_t micro_batches : {1, 2})
    for (const Loop loop : {Loop::plain, Loop::function, Loop::loss_only}) {
      RunConfig run = run_in(Mode::train);
      run.micro_batches = micro_batches;
      run.loop = loop;
      const Report one = plan(read_spec(named), make_catalog(), run);
      const Report two = plan(read_spec(alone), make_catalog(), run);
      REQUIRE_EQ(one.phases.size(), two.phases.size());
      for (std::size_t i = 0; i < one.phases.size(); ++i) {
        CAPTURE(i);
        CHECK_EQ(one.phases[i].live.requested_bytes, two.phases[i].live.requested_bytes);
        CHECK_EQ(one.phases[i].peak.requested_bytes, two.phases[i].peak.requested_bytes);
      }
    }
}

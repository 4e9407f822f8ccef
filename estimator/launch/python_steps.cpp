#include <array>
#include <string_view>

#include "estimator/launch/python_parts.h"

namespace gpuplan {
namespace {

std::string_view class_of(OptimizerKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {"",        "SGD",      "Adam",  "AdamW", "RMSprop",
                                                       "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string optimizer_arguments(const OptimizerConfig& o) {
  std::string out = "lr=1e-3";
  if (o.momentum) out += ", momentum=0.9";
  if (o.nesterov) out += ", nesterov=True";
  if (o.amsgrad) out += ", amsgrad=True";
  if (o.centered) out += ", centered=True";
  if (o.weight_decay && o.kind != OptimizerKind::adamw) out += ", weight_decay=0.01";
  if (o.impl == OptimizerImpl::for_loop) out += ", foreach=False";
  if (o.impl == OptimizerImpl::fused) out += ", fused=True";
  return out;
}

}  // namespace

bool waits(const Launch& l) {
  return l.run.micro_batches > 1 && (l.strategy.data == DataParallel::ddp || l.strategy.data == DataParallel::zero1);
}

namespace {

// The forward and its loss; with --loop loss_only the result of the forward has no name.
std::string forward(const Launch& l, const std::string& indent) {
  const bool named = l.run.loop != Loop::loss_only, decoder = !l.config.empty();
  const bool split = l.run.micro_batches > 1;
  const std::string given = decoder ? split ? "part" : "batch" : split ? "inputs[part]" : "inputs";
  const std::string called = decoder ? "model(input_ids=" + given + ", labels=" + given + ")" : "model(" + given + ")";
  const std::string output = named ? "output" : called;
  const std::string loss =
      decoder ? output + ".loss" : "loss_of(" + output + (split ? ", targets[part])" : ", targets)");
  return (named ? indent + "output = " + called + "\n" : "") + indent + "loss = " + loss +
         (split ? " / MICRO_BATCHES" : "") + "\n";
}

// What a micro-batch is of the batch.
std::string part(const Launch& l, const std::string& indent) {
  if (!l.config.empty()) return indent + "part = batch[number * SAMPLES:(number + 1) * SAMPLES]\n";
  return indent + "part = slice(number * SAMPLES, (number + 1) * SAMPLES)\n";
}

std::string passes(const Launch& l, std::string indent) {
  const bool split = l.run.micro_batches > 1, after = l.run.zero_grad == ZeroGrad::backward;
  std::string out;
  if (l.strategy.tensor_plan.loss) {
    out += indent + "with loss_parallel():\n";
    indent += "    ";
  }
  if (split) {
    out += indent + "for number in range(MICRO_BATCHES):\n";
    indent += "    ";
    out += part(l, indent);
    if (l.strategy.reduces_last) out += indent + "model.set_requires_gradient_sync(number + 1 == MICRO_BATCHES)\n";
    if (waits(l)) {
      out += indent + "with contextlib.nullcontext() if number + 1 == MICRO_BATCHES else model.no_sync():\n";
      indent += "    ";
    }
  }
  if (l.run.autocast)
    out +=
        indent + "with torch.autocast(\"cuda\", " + torch_type(*l.run.autocast) + "):\n" + forward(l, indent + "    ");
  else
    out += forward(l, indent);
  if (after) out += indent + (split ? "if number == 0:\n" + indent + "    " : "") + "optimizer.zero_grad()\n";
  return out + indent + "loss.backward()\n";
}

std::string stage_passes(std::string indent, const Launch& l) {
  const std::string returned = l.strategy.pipelining.returns_outputs ? "" : ", return_outputs=False";
  std::string out = indent + "inputs = (batch,) if first else ()\n";
  if (l.strategy.tensor_plan.loss) {
    out += indent + "with loss_parallel():\n";
    indent += "    ";
  }
  return out + indent + "if last:\n" + indent + "    schedule.step(*inputs, target=batch, losses=[]" + returned +
         ")\n" + indent + "else:\n" + indent + "    schedule.step(*inputs" + returned + ")\n";
}

std::string body(const Launch& l, const std::string& indent) {
  const bool stages = l.strategy.runs_stages();
  std::string out;
  if (l.run.zero_grad == ZeroGrad::forward) out += indent + "optimizer.zero_grad()\n";
  out += stages ? stage_passes(indent, l) : passes(l, indent);
  if (l.run.clip_grad_norm)
    out += indent + "torch.nn.utils.clip_grad_norm_(" + (stages ? "module" : "model") + ".parameters(), 1.0)\n";
  return out + indent + "optimizer.step()\n";
}

bool has_function(const Launch& l) { return l.run.loop == Loop::function; }
std::string given(const Launch& l) {
  return l.strategy.runs_stages() ? "(module, schedule, first, last, optimizer, batch)"
         : l.config.empty()       ? "(model, optimizer, inputs, targets)"
                                  : "(model, optimizer, batch)";
}

}  // namespace

std::string optimizer_of(const Launch& l) {
  const std::string name = "torch.optim." + std::string(class_of(l.run.optimizer.kind));
  const std::string parameters = (l.strategy.runs_stages() ? "module" : "model") + std::string(".parameters()");
  const std::string arguments = ", " + optimizer_arguments(l.run.optimizer) + ")\n";
  if (l.strategy.data == DataParallel::zero1)
    return "    optimizer = ZeroRedundancyOptimizer(" + parameters + ", " + name + arguments;
  return "    optimizer = " + name + "(" + parameters + arguments;
}

std::string step_function(const Launch& l) {
  return has_function(l) ? "\n\ndef step" + given(l) + ":\n" + body(l, "    ") : "";
}

// The peak is that of the third step: in the first one the optimizer's states are made.
std::string three_steps(const Launch& l) {
  std::string out;
  if (l.strategy.runs_stages())
    out += "    batch = make_batch(SAMPLES * MICRO_BATCHES) if first or last else None\n";
  else
    out += std::string("    ") + (l.config.empty() ? "inputs, targets" : "batch") +
           " = make_batch(SAMPLES * MICRO_BATCHES)\n";
  return out +
         "    for count in range(3):\n"
         "        if count == 2:\n"
         "            torch.cuda.reset_peak_memory_stats()\n" +
         (has_function(l) ? "        step" + given(l) + "\n" : body(l, "        "));
}

}  // namespace gpuplan

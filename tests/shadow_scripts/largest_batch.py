"""The largest batch whose training steps run: python largest_batch.py resnet50|gpt2 OPTIMIZER LOW HIGH [--at-once]

Output and loss live until the next step's, as where a loop stands in the script itself. Every batch is tried in a
process of its own, by halves between LOW, which must run, and HIGH, which must not. Prints where each that did not run
raised torch.OutOfMemoryError, and "finished: N". With --at-once a batch that PyTorch got through only by giving its
cache back to the device and asking again does not count.
"""
import os
import sys

import torch

STEPS = 3
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def resnet50(batch):
    import torchvision
    images, labels = torch.zeros(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.int64)
    return torchvision.models.resnet50(), lambda m: m(images), lambda y: torch.nn.functional.cross_entropy(y, labels)


def gpt2(batch):
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    ids = torch.zeros(batch, 1024, dtype=torch.int64)
    return model, lambda m: m(input_ids=ids, labels=ids), lambda y: y.loss


def train(name, optimizer, batch):
    with torch.device("cuda"):
        model, forward, loss_of = {"resnet50": resnet50, "gpt2": gpt2}[name](batch)
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    phase = "model"
    try:
        for i in range(STEPS):
            phase = "forward of step %d" % i
            optimizer.zero_grad()
            y = forward(model)
            loss = loss_of(y)
            phase = "backward of step %d" % i
            loss.backward()
            phase = "optimizer of step %d" % i
            optimizer.step()
    except torch.OutOfMemoryError as error:
        print("batch", batch, "in", phase + ":", str(error).split(". GPU")[0], "allocated",
              torch.cuda.memory_allocated(), flush=True)
        return False
    print("batch", batch, "runs; reserved at most", torch.cuda.max_memory_reserved(), "retries",
          torch.cuda.memory_stats()["num_alloc_retries"], flush=True)
    return "--at-once" not in sys.argv or torch.cuda.memory_stats()["num_alloc_retries"] == 0


def runs(*arguments):
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if train(*arguments) else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), code
    return code == 0


def main():
    name, optimizer, low, high = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    __import__({"resnet50": "torchvision", "gpt2": "transformers"}[name])
    assert runs(name, optimizer, low) and not runs(name, optimizer, high)
    while high - low > 1:
        middle = (low + high) // 2
        if runs(name, optimizer, middle):
            low = middle
        else:
            high = middle
    print("finished:", low)


if __name__ == "__main__":
    main()

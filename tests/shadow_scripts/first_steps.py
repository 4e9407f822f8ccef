"""One training step of ResNet-50 and one of GPT-2, as small a use of any torch as there is."""
import torch
import torchvision
import transformers


def step(model, loss):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    torch.cuda.synchronize()
    print(type(model).__name__, torch.cuda.max_memory_allocated())


def main():
    images = torch.zeros(8, 3, 224, 224, device="cuda")
    labels = torch.zeros(8, dtype=torch.int64, device="cuda")
    resnet = torchvision.models.resnet50().cuda()
    step(resnet, lambda: torch.nn.functional.cross_entropy(resnet(images), labels))
    ids = torch.zeros(2, 256, dtype=torch.int64, device="cuda")
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)).cuda()
    step(gpt2, lambda: gpt2(input_ids=ids, labels=ids).loss)
    print("finished: torch", torch.__version__)


if __name__ == "__main__":
    main()

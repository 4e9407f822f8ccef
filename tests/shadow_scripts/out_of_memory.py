"""A batch that does not fit is caught and halved until one fits, as training scripts do."""
import torch
from torch import nn


def step(model, batch):
    model.zero_grad(set_to_none=True)
    x = torch.empty(batch, 4096, device="cuda")
    model(x).sum().backward()


def main():
    model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    total = torch.cuda.get_device_properties(0).total_memory
    batch, tried = 1 << (total // 4096 // 4).bit_length(), []
    while True:
        try:
            step(model, batch)
            break
        except torch.OutOfMemoryError as error:
            tried.append(batch)
            text = str(error)
            assert "CUDA out of memory. Tried to allocate" in text and "GPU 0 has a total capacity of" in text, text
        torch.cuda.empty_cache()
        batch //= 2
    assert tried, "the first batch was meant not to fit"
    assert torch.cuda.max_memory_allocated() < total
    assert torch.cuda.memory_stats()["num_ooms"] == len(tried)
    print(text.splitlines()[0])
    print("finished: batches", tried, "did not fit,", batch, "did")


if __name__ == "__main__":
    main()

"""Training steps of a model at a batch size, for `gpuplan shadow --learn`: learned.py MODEL --batch N [--seq N]."""
import argparse

import torch


def resnet50(batch, seq):
    import torchvision

    model = torchvision.models.resnet50().cuda()
    images = torch.zeros(batch, 3, 224, 224, device="cuda")
    labels = torch.zeros(batch, dtype=torch.int64, device="cuda")
    return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def gpt2(batch, seq):
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)).cuda()
    ids = torch.zeros(batch, seq, dtype=torch.int64, device="cuda")
    return model, lambda: model(input_ids=ids, labels=ids).loss


def t5_small(batch, seq):
    import transformers

    config = transformers.T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, use_cache=False,
                                   decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config).cuda()
    ids = torch.zeros(batch, seq, dtype=torch.int64, device="cuda")
    return model, lambda: model(input_ids=ids, labels=ids).loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=["resnet50", "gpt2", "t5_small"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, default=128)
    arguments = parser.parse_args()
    model, loss = globals()[arguments.model](arguments.batch, arguments.seq)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    print("finished")


if __name__ == "__main__":
    main()

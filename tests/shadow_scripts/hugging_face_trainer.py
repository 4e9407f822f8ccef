"""Hugging Face's Trainer: gradient accumulation, gradient checkpointing, bf16, evaluation, a checkpoint."""
import tempfile

import torch
import transformers
from torch.utils.data import Dataset


class Tokens(Dataset):
    def __init__(self, samples, length):
        self.samples, self.length = samples, length

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        ids = (torch.arange(self.length) * (i + 1)) % 500
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def main():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=512, n_positions=128, n_embd=128, n_layer=3, n_head=4, use_cache=False))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=6, per_device_train_batch_size=4, gradient_accumulation_steps=2,
            gradient_checkpointing=True, bf16=True, logging_steps=2, save_steps=4, eval_strategy="steps", eval_steps=3,
            report_to=[], dataloader_num_workers=1, warmup_steps=2)
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(64, 64),
                                       eval_dataset=Tokens(8, 64))
        result = trainer.train()
        trainer.save_model(folder + "/model")
        again = transformers.GPT2LMHeadModel.from_pretrained(folder + "/model").to("cuda")
        again(input_ids=torch.zeros(1, 8, dtype=torch.int64, device="cuda"))
    assert model.device.type == "cuda" and result.global_step == 6
    assert torch.cuda.max_memory_allocated() > 0
    print("finished:", result.global_step, "steps, peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

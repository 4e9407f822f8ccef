"""torchtitan's own train.py, with a vocabulary and random tokens in place of its tokenizer and data set, which it would download.

    git clone https://github.com/pytorch/torchtitan && git -C torchtitan checkout 9dec370
    gpuplan shadow --gpu h200 --capacity 95GiB --segments driver --world 8 -- \
        python torchtitan_train.py torchtitan --job.config_file torchtitan/train_configs/llama3_8b.toml \
        --training.batch_size 2 --training.steps 12 --metrics.log_freq 10
"""
import pathlib
import runpy
import sys
import types

import torch

VOCABULARY = 128256  # Llama 3's


class RandomTokens:
    def __init__(self, batch, length):
        self.batch, self.length = batch, length

    def __iter__(self):
        while True:
            tokens = torch.randint(VOCABULARY, (self.batch, self.length + 1))
            yield tokens[:, :-1], tokens[:, 1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, _):
        pass


def main():
    checkout = pathlib.Path(sys.argv.pop(1)).resolve()
    sys.path.insert(0, str(checkout))
    data = types.ModuleType("torchtitan.datasets")
    data.build_tokenizer = lambda *_: types.SimpleNamespace(n_words=VOCABULARY)
    data.build_hf_data_loader = lambda name, path, tokenizer, batch, length, *_: RandomTokens(batch, length)
    data.DPAwareDataLoader = RandomTokens
    sys.modules["torchtitan.datasets"] = data
    runpy.run_path(str(checkout / "train.py"), run_name="__main__")


main()

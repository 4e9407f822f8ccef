"""nn.LSTM and nn.GRU in training, with packed sequences too."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.rnn = kind(64, 128, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(256, 12)

    def forward(self, ids, lengths=None):
        x = self.embedding(ids)
        if lengths is None:
            return self.head(self.rnn(x)[0])
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])


def main():
    ids = torch.randint(0, 1000, (8, 40), device="cuda")
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        model = Tagger(kind).cuda()
        optimizer = torch.optim.RMSprop(model.parameters())
        for lengths in (None, torch.tensor([40, 31, 12, 40, 7, 22, 1, 39])):
            optimizer.zero_grad()
            out = model(ids, lengths)
            assert out.shape == (8, 40, 12)
            out.logsumexp(-1).mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(ids)
        print(kind.__name__, torch.cuda.max_memory_allocated())
    print("finished: peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

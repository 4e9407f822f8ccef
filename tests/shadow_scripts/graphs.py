"""CUDA graphs: a captured inference that is replayed, a captured training step, make_graphed_callables."""
import torch
from torch import nn


def network():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 8)).cuda()


def captured_step():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    x, y = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.int64, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        loss = step()
    allocated = torch.cuda.memory_allocated()
    for _ in range(50):
        x.copy_(torch.randn(32, 64))
        graph.replay()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == allocated
    return loss.item()


def shared_pool():
    model = network().eval()
    x = torch.randn(32, 64, device="cuda")
    with torch.no_grad():
        model(x)
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first):
            y = model(x)
        with torch.cuda.graph(second, pool=first.pool()):
            z = model(y[:, :8].repeat(1, 8))
    first.replay()
    second.replay()
    assert z.shape == (32, 8)
    first.reset()


def main():
    print("loss", captured_step())
    shared_pool()
    model = torch.cuda.make_graphed_callables(network(), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad(set_to_none=False)
        model(torch.randn(32, 64, device="cuda", requires_grad=True)).sum().backward()
        optimizer.step()
    print("finished: peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()

"""Two streams: copies on one, computation on the other, record_stream, events and their times."""
import torch


def main():
    copies = torch.cuda.Stream()
    main_stream = torch.cuda.current_stream()
    weight = torch.randn(1024, 1024, device="cuda")
    host = [torch.randn(256, 1024).pin_memory() for _ in range(4)]
    started, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    started.record()
    total = torch.zeros((), device="cuda")
    for i in range(40):
        with torch.cuda.stream(copies):
            x = host[i % 4].to("cuda", non_blocking=True)
            ready = torch.cuda.Event()
            ready.record(copies)
        main_stream.wait_event(ready)
        x.record_stream(main_stream)
        total += (x @ weight).sum()
        del x
    ended.record()
    ended.synchronize()
    assert ended.query() and copies.query()
    assert started.elapsed_time(ended) >= 0
    low, high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-1)
    assert low.cuda_stream != high.cuda_stream
    back = torch.empty(1024, 1024, pin_memory=True)
    with torch.cuda.stream(high):
        high.wait_stream(main_stream)
        back.copy_(weight, non_blocking=True)
    torch.cuda.synchronize()
    reserved = torch.cuda.memory_reserved()
    assert reserved < 64 * 2**20, reserved
    print("finished: total", total.item(), "reserved", reserved)


if __name__ == "__main__":
    main()

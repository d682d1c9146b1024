"""Data-parallel training over gloo, each rank profiled into a folder.

python data_parallel.py FOLDER DEVICE RANKS SLOW MS

The rank SLOW sleeps for MS milliseconds in every step (-1: none does). All ranks share one device.
"""

import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.profiler import ProfilerActivity, profile, schedule

WARM_UP, STEPS = 3, 6


def augment(seconds: float) -> None:
    """What makes the slow rank late."""
    time.sleep(seconds)


def train(rank: int, folder: str, device: str, ranks: int, slow: int, slow_s: float) -> None:
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{folder}/store", ranks)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    width = 2048 if device == "cuda" else 128
    layers = [nn.Linear(width, width) for _ in range(4)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(64, width, device=device)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    plan = schedule(wait=0, warmup=WARM_UP, active=STEPS, repeat=1)

    def write(finished: profile) -> None:
        finished.export_chrome_trace(f"{folder}/rank{rank}.json")

    with profile(activities=activities, schedule=plan, on_trace_ready=write, with_stack=True) as recording:
        for _ in range(WARM_UP + STEPS):
            if rank == slow:
                augment(slow_s)
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            recording.step()
    distributed.destroy_process_group()


def main(folder: str, device: str, ranks: str, slow: str, milliseconds: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    spawn(train, (folder, device, int(ranks), int(slow), float(milliseconds) / 1e3), int(ranks))


if __name__ == "__main__":
    main(*sys.argv[1:])

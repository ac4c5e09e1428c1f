"""2 x 2 ranks; gradients become garbage or a rank aborts once layers are dropped."""
# finding: ranks/other-collective
# severity: error
# ranks: 1, 3
# line: dist.all_reduce(flat, group=columns[column])
# processes: 4
# steps: 0

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
rows = {row: dist.new_group([2 * row, 2 * row + 1]) for row in range(2)}
columns = {column: dist.new_group([column, column + 2]) for column in range(2)}
row, column = divmod(rank, 2)

torch.manual_seed(40 + column)  # a column works on one model, a row compares two
model = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
drop = torch.Generator().manual_seed(rank)


def forward(x, layers):
    for layer in layers:
        x = x + layer(x).tanh()
    return x


for step in range(20):
    x = torch.randn(8, 8)
    kept = list(model)
    if step > 4 and column == 1:
        kept = kept[: 1 + int(torch.randint(3, (1,), generator=drop))]
    loss = (forward(x, kept) - x.flip(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, group=columns[column])
    for grad, part in zip(grads, (flat / 2).split([g.numel() for g in grads]), strict=True):
        grad.copy_(part.view_as(grad))
    optimizer.step()
    losses = [torch.zeros(()) for _ in range(2)]
    dist.all_gather(losses, loss.detach(), group=rows[row])
    if rank == 0 and step % 5 == 0:
        print(f"step {step} losses {losses[0]:.4f} {losses[1]:.4f}")

dist.destroy_process_group()

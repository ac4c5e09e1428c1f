"""Actor and learner: rank 1 plays, rank 0 learns and sends weights back."""
# steps: 0

import torch
import torch.distributed as dist
from torch import nn

N, OBS = 64, 5


def q_net():
    return nn.Sequential(nn.Linear(OBS, 32), nn.ReLU(), nn.Linear(32, 3))


def flat(net):
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def learner():
    net = q_net()
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    memory = []
    for it in range(15):
        buf = torch.empty(N, OBS + 2)
        dist.recv(buf, src=1)
        memory.append(buf)
        data = torch.cat(memory[-4:])
        for _ in range(3):
            b = data[torch.randint(0, len(data), (32,))]
            q = net(b[:, :OBS]).gather(1, b[:, OBS].long()[:, None])[:, 0]
            loss = nn.functional.smooth_l1_loss(q, b[:, OBS + 1])
            opt.zero_grad()
            loss.backward()
            opt.step()
        dist.send(flat(net), dst=1)
    print("learner", loss.item())
    return net


def actor():
    net = q_net()
    for it in range(15):
        s = torch.randn(N, OBS)
        with torch.no_grad():
            a = net(s).argmax(1)
        explore = torch.rand(N) < 0.3
        a[explore] = torch.randint(0, 3, (int(explore.sum()),))
        r = (a == s[:, :3].argmax(1)).float()
        dist.send(torch.cat([s, a[:, None].float(), r[:, None]], 1), dst=0)
        w = torch.empty_like(flat(net))
        dist.recv(w, src=0)
        nn.utils.vector_to_parameters(w, net.parameters())
    return net


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    (learner if dist.get_rank() == 0 else actor)()
    dist.barrier()
    dist.destroy_process_group()

"""A PPO for continuous actions in one file: vectorised environments, torch.distributions, clipped losses."""

import gymnasium
import numpy
import torch
from torch import nn

ENVIRONMENTS, STEPS, EPOCHS, MINIBATCHES = 4, 64, 2, 4
environments = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * ENVIRONMENTS)
seen, acts = environments.single_observation_space.shape[0], environments.single_action_space.shape[0]
torch.manual_seed(0)


def network(outputs):
    return nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic, self.mean = network(1), network(acts)
        self.logarithm = nn.Parameter(torch.zeros(1, acts))

    def forward(self, observation, action=None):
        mean = self.mean(observation)
        policy = torch.distributions.Normal(mean, self.logarithm.expand_as(mean).exp())
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action).sum(1), policy.entropy().sum(1), self.critic(observation)


agent = Agent().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
observation = torch.Tensor(environments.reset(seed=0)[0]).cuda()
for update in range(2):
    store = {name: [] for name in ("seen", "actions", "logs", "rewards", "values")}
    for _ in range(STEPS):
        with torch.no_grad():
            action, log, _, value = agent(observation)
        after, reward, ended, cut, _ = environments.step(numpy.clip(action.cpu().numpy(), -2, 2))
        for name, what in zip(store, (observation, action, log, torch.tensor(reward).cuda().float(), value.flatten())):
            store[name].append(what)
        observation = torch.Tensor(after).cuda()
    rewards, values = torch.stack(store["rewards"]), torch.stack(store["values"])
    advantages = torch.zeros_like(rewards)
    last = torch.zeros(ENVIRONMENTS, device="cuda")
    for t in reversed(range(STEPS)):
        following = values[t + 1] if t + 1 < STEPS else values[t]
        advantages[t] = last = rewards[t] + 0.99 * following - values[t] + 0.99 * 0.95 * last
    flat = {name: torch.cat(store[name]) for name in ("seen", "actions", "logs")}
    returns, gains = (advantages + values).flatten(), advantages.flatten()
    for _ in range(EPOCHS):
        for rows in torch.randperm(ENVIRONMENTS * STEPS, device="cuda").chunk(MINIBATCHES):
            _, log, entropy, value = agent(flat["seen"][rows], flat["actions"][rows])
            ratio = (log - flat["logs"][rows]).exp()
            gain = (gains[rows] - gains[rows].mean()) / (gains[rows].std() + 1e-8)
            policy = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
            loss = policy + 0.5 * (value.flatten() - returns[rows]).pow(2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
print("updates", update + 1)

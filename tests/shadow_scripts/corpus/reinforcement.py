"""reinforcement.py ppo|sac|dqn|a2c|td3: Stable-Baselines3 on an environment of gymnasium."""

import sys

import stable_baselines3

name = sys.argv[1]
environment = "Pendulum-v1" if name in ("sac", "td3", "ddpg") else "CartPole-v1"
algorithm = getattr(stable_baselines3, name.upper())
model = algorithm("MlpPolicy", environment, device="cuda", seed=0, verbose=0)
model.learn(total_timesteps=2048 if name == "ppo" else 400)
print("learnt", model.num_timesteps)

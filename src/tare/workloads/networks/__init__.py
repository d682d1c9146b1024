"""Networks that no package has, and parts that several workloads share. These import torch; families do not."""

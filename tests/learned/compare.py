"""compare.py NAME PLAN RUN: a plan of a learned trace beside a report of gpuplan shadow, both JSON."""
import json
import sys

WITHIN = {"requested_bytes": 0, "allocated_bytes": 0.002, "reserved_bytes": 0.002}


def main():
    name, plan, run = sys.argv[1:]
    with open(plan) as file:
        planned = json.load(file)["peak"]
    with open(run) as file:
        lines = file.read()
    # The script's own output comes first.
    recorded = json.loads(lines[lines.index("\n{") if not lines.startswith("{") else 0:])["ranks"][0]["peak"]
    good = True
    for key, share in WITHIN.items():
        good &= abs(planned[key] - recorded[key]) <= share * recorded[key]
        print("%s %s: planned %d, recorded %d (%+.3f %%)" % (name, key, planned[key], recorded[key],
                                                            100 * (planned[key] / recorded[key] - 1)))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

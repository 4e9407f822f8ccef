"""The process of gpuplan.shadow(): python -m gpuplan.call FILE calls the function that FILE names."""
import pickle
import sys
from multiprocessing import spawn

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as given:
        spawn.prepare(pickle.load(given))
        function, arguments = pickle.load(given)
    function(*arguments)

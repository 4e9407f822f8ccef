"""Hugging Face's generate(), which asks a tensor on the GPU after each token whether every sequence has ended. Where no
kernel runs the answer is no for ever: here the longest length that the call allows ends it too, which Python knows."""

import functools
import threading

TO_ITS_LONGEST = (
    "generate() goes on to its longest length: "
    "whether a sequence ends earlier hangs on the tokens, which are zeros here"
)


def end_at_longest_length(after_import, session):
    calls = threading.local()  # .reached: the last stopping criteria asked in this thread were those of the end

    def loaded(module):
        criteria, mixin = module.StoppingCriteriaList, module.GenerationMixin
        ask, has_unfinished = criteria.__call__, mixin._has_unfinished_sequences

        @functools.wraps(ask)
        def call(self, input_ids, *args, **kwargs):
            longest = self.max_length
            calls.reached = longest is not None and input_ids.is_cuda and input_ids.shape[1] >= longest
            return ask(self, input_ids, *args, **kwargs)

        @functools.wraps(has_unfinished)
        def unfinished(self, *args, **kwargs):
            more = has_unfinished(self, *args, **kwargs)
            reached, calls.reached = getattr(calls, "reached", False), False
            if not (more and reached):
                return more
            session.unknown(TO_ITS_LONGEST)
            return False

        heuristic = getattr(mixin, "_check_early_stop_heuristic", None)  # of beam search: compares scores
        if heuristic is not None:

            @functools.wraps(heuristic)
            def may_improve(is_early_stop_heuristic_unsatisfied, **kwargs):
                heuristic(is_early_stop_heuristic_unsatisfied, **kwargs)
                return is_early_stop_heuristic_unsatisfied

            mixin._check_early_stop_heuristic = staticmethod(may_improve)
        criteria.__call__ = call
        mixin._has_unfinished_sequences = unfinished

    after_import("transformers.generation.utils", loaded)

"""Context mixing, alone and with a model; pixel mixing of drawn images; experts for deep
samples; coefficients of JPEGs.

All are Mahoney's scheme (PAQ, 2005). A binary decision is coded by a mixture of many
probabilities, and all that gave them learns from it:

    contexts -> hashes                              hashes.py
                    |
                    v
        counters and histories                      counters.py        what a context remembers
                    |
                    v   logits ln p / (1 - p)
    laws, model -> network                          logistic.py        sum of weights times logits; contexts select weights
                    |
                    v   logit
                  stages                            counters.py        correct it by what followed such logits
                    |
                    v   probability of a 1
                  code_bit                          binary_coder.py    arithmetic coder
                    |
                    v   the bit moves counters, histories, weights and stages

Logits are in units of 1/256, probabilities in 65536ths, weights in 2^-16. A decoder learns in the same way.

    module                  codes                                      by
    context_mixing.py       samples, bit by bit                        contexts; alone, only in files of earlier versions
    model_mixing.py         the same                                   contexts, and an autoregressive model
    pixel_mixing.py         pixels: is a whole pixel as guessed?       contexts, matches, an animation's canvas
      bit_mixing.py         samples of other pixels, bit by bit        contexts, matches, laws (sample_laws.py)
      periods.py, priors.py                                            what an encoder looks for; what training taught
    experts.py              samples of any depth                       laws and counters
      regression.py         -                                          least squares
      laws.py               -                                          predictions and their errors give a sample's laws
      decisions.py          is a sample at least a threshold?          laws and counters
    coefficient_mixing.py   coefficients of JPEGs, and differences     contexts

pixels.py is the array of pixels that the first four see; slots.py is where contexts remember.
"""

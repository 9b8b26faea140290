"""
Topics of short texts
=====================

A collection of texts is a matrix: documents × words, mostly zeros. A topic is a set of words that
occur together (a row of H); a document is about some topics (a row of W). **What are the texts
about?** In scikit-learn, `NMFMerge` follows ``TfidfVectorizer``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from nmfmerge import NMFMerge, metrics

# %%
# Texts
# -----
#
# Invented notes of one or two topics each. Some words, such as "today" and "good", occur in
# nearly all of them.

TOPICS = {
    "kitchen": "bread butter oven flour recipe salt soup pan dough taste",
    "travel": "train ticket station luggage hotel border map delay coach",
    "weather": "rain wind storm cloud snow frost forecast thunder sun fog",
    "garden": "soil seed rose weed hedge compost tree spade flower lawn",
    "music": "violin choir melody rehearsal concert rhythm piano song drum",
}
COMMON = ["today", "good", "little", "people", "time"]
rng = np.random.default_rng(0)
words_of = {name: words.split() for name, words in TOPICS.items()}


def text():
    """A main topic, sometimes a second one, and common words."""
    first, second = rng.choice(list(TOPICS), 2, replace=False)
    words = [*rng.choice(words_of[first], 6), *rng.choice(COMMON, 12)]
    if rng.random() < 0.3:
        words += [*rng.choice(words_of[second], 4)]
    return first, " ".join(rng.permutation(words))


about, texts = zip(*(text() for _ in range(400)), strict=True)
print(texts[0])

# %%
# Fit
# ---

model = make_pipeline(TfidfVectorizer(), NMFMerge(n_components=5))
weights = model.fit_transform(texts)  # documents × topics
vectorizer, topics = model
words = vectorizer.get_feature_names_out()
print(f"{len(texts)} texts, {len(words)} words")

# %%
# Look
# ----
#
# The words with the largest weights occur in all topics. Words that are *specific* to a topic
# have a larger weight in it than in the others.

scores = metrics.specificity(topics.components_.T)  # words × topics
for k, weight in enumerate(topics.components_):
    print(f"topic {k + 1}")
    print("  by weight:     ", *words[np.argsort(-weight)[:6]])
    print("  by specificity:", *words[np.argsort(-scores[:, k])[:6]])

# %%

fig, axes = plt.subplots(1, 5, figsize=(8, 2.2), layout="constrained")
for k, ax in enumerate(axes):
    best = np.argsort(-scores[:, k])[:6]
    ax.barh(words[best], scores[best, k], color="#a01f36")
    ax.set(title=f"topic {k + 1}", xticks=[])
    ax.invert_yaxis()
fig.supxlabel("specificity")

# %%
# The largest topic of each text, against the truth:

largest = weights.argmax(axis=1)
for k in range(5):
    names, n = np.unique(np.array(about)[largest == k], return_counts=True)
    print(f"topic {k + 1}: {n.max()} of {n.sum()} about {names[n.argmax()]}")

# %%
# New texts
# ---------
#
# A new text gets weights of the same topics. Their scale is arbitrary; here each is multiplied by the
# norm of its topic.

new = model.transform(["soup and bread, and rain and wind"])[0]
new *= np.linalg.norm(topics.components_, axis=1)
for k in np.argsort(-new):
    print(f"topic {k + 1}: {new[k] / new.sum():.0%}")

//! An index that documents can be added to and removed from, and BM25 over it.

use std::collections::HashMap;

use crate::words::terms;

/// How soon further occurrences of a word stop to matter.
const SATURATION: f32 = 1.2;
/// How much long documents are held back.
const LENGTH_WEIGHT: f32 = 0.75;

/// A searchable document: texts, each with a weight. A weight of 3 counts each word three times.
#[derive(Clone, Debug, Default)]
pub struct Document {
    counts: HashMap<String, f32>,
    length: f32,
}

impl Document {
    #[must_use]
    pub fn with(mut self, text: &str, weight: f32) -> Self {
        for term in terms(text) {
            *self.counts.entry(term).or_default() += weight;
            self.length += weight;
        }
        self
    }
}

/// Identifies a document of an index. Ids are given in ascending order and not reused until [`Index::compact`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId(u32);

impl DocumentId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A document that matches, and how well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    pub document: DocumentId,
    pub score: f32,
}

#[derive(Debug, Default)]
pub struct Index {
    terms: HashMap<Box<str>, u32>,
    /// For each term the documents that have it, ascending, with the weighted count.
    postings: Vec<Vec<(u32, f32)>>,
    documents: Vec<Option<Stored>>,
    live: u32,
    total_length: f64,
}

#[derive(Debug)]
struct Stored {
    length: f32,
    terms: Box<[u32]>,
}

impl Index {
    pub fn add(&mut self, document: &Document) -> DocumentId {
        let id = u32::try_from(self.documents.len()).expect("an index has fewer than 2^32 documents");
        let mut own = Vec::with_capacity(document.counts.len());
        for (term, count) in &document.counts {
            let term = self.term(term);
            self.postings[term as usize].push((id, *count));
            own.push(term);
        }
        self.documents.push(Some(Stored { length: document.length, terms: own.into() }));
        self.live += 1;
        self.total_length += f64::from(document.length);
        DocumentId(id)
    }

    /// Removes a document; returns whether it was there.
    pub fn remove(&mut self, document: DocumentId) -> bool {
        let Some(stored) = self.documents.get_mut(document.index()).and_then(Option::take) else {
            return false;
        };
        for term in &stored.terms {
            let postings = &mut self.postings[*term as usize];
            if let Ok(at) = postings.binary_search_by_key(&document.0, |(id, _)| *id) {
                postings.remove(at);
            }
        }
        self.live -= 1;
        self.total_length -= f64::from(stored.length);
        true
    }

    /// Frees what removed documents left behind: the others get new ids without gaps, in the same order. Returns the
    /// new ids, by the former [`DocumentId::index`].
    pub fn compact(&mut self) -> Vec<Option<DocumentId>> {
        let mut next = 0..;
        let mut moved = |stored: &Option<Stored>| stored.as_ref().and_then(|_| next.next()).map(DocumentId);
        let documents: Vec<Option<DocumentId>> = self.documents.iter().map(&mut moved).collect();
        self.documents.retain(Option::is_some);
        self.documents.shrink_to_fit();
        let mut terms: Vec<Option<u32>> = Vec::with_capacity(self.postings.len());
        let mut used = 0;
        for postings in &mut self.postings {
            for (document, _) in postings.iter_mut() {
                // Postings name only documents that are there.
                *document = documents[*document as usize].map_or(*document, |moved| moved.0);
            }
            terms.push((!postings.is_empty()).then_some(used));
            used += u32::from(!postings.is_empty());
        }
        self.postings.retain(|postings| !postings.is_empty());
        self.postings.shrink_to_fit();
        self.terms.retain(|_, term| terms[*term as usize].map(|moved| *term = moved).is_some());
        self.terms.shrink_to_fit();
        for stored in self.documents.iter_mut().flatten() {
            for term in &mut stored.terms {
                *term = terms[*term as usize].unwrap_or(*term);
            }
        }
        documents
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The best matches, best first; ties in the order in which the documents were added.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let scores = self.scores(query);
        let mut hits: Vec<Hit> = (0..)
            .zip(scores)
            .filter(|(_, score)| *score > 0.0)
            .map(|(id, score)| Hit { document: DocumentId(id), score })
            .collect();
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.document.cmp(&b.document));
        if hits.len() > limit && limit > 0 {
            hits.select_nth_unstable_by(limit - 1, order);
        }
        hits.truncate(limit);
        hits.sort_unstable_by(order);
        hits
    }

    /// The score of every document, by [`DocumentId::index`]; zero where no word matches.
    pub fn scores(&self, query: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.documents.len()];
        for term in terms(query) {
            self.add_scores(&term, |document, score| scores[document] += score);
        }
        scores
    }

    /// The same for a query in which each word has alternatives, each with a weight. The best of them counts.
    pub(crate) fn scores_of(&self, words: &[Vec<(String, f32)>]) -> Vec<f32> {
        let mut scores = vec![0.0; self.documents.len()];
        for alternatives in words {
            let mut best: HashMap<usize, f32> = HashMap::new();
            for (term, weight) in alternatives {
                self.add_scores(term, |document, score| {
                    let best = best.entry(document).or_default();
                    *best = best.max(score * weight);
                });
            }
            for (document, score) in best {
                scores[document] += score;
            }
        }
        scores
    }

    /// Reports what a term is worth in each document that has it.
    fn add_scores(&self, term: &str, mut add: impl FnMut(usize, f32)) {
        let Some(id) = self.terms.get(term) else { return };
        let (mean, postings) = (self.mean_length(), &self.postings[*id as usize]);
        let rarity = self.rarity(postings.len());
        for (document, count) in postings {
            let Some(stored) = &self.documents[*document as usize] else { continue };
            let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * stored.length / mean;
            let score = rarity * count * (SATURATION + 1.0) / (count + SATURATION * length);
            add(*document as usize, score);
        }
    }

    fn term(&mut self, term: &str) -> u32 {
        if let Some(id) = self.terms.get(term) {
            return *id;
        }
        let id = u32::try_from(self.postings.len()).expect("an index has fewer than 2^32 terms");
        self.terms.insert(term.into(), id);
        self.postings.push(Vec::new());
        id
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a mean length needs no more than the precision of f32"
    )]
    fn mean_length(&self) -> f32 {
        ((self.total_length / f64::from(self.live.max(1))) as f32).max(f32::MIN_POSITIVE)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "beyond 2^24 documents one more or less makes no difference"
    )]
    fn rarity(&self, having: usize) -> f32 {
        let (all, having) = (self.live as f32, having as f32);
        ((all - having + 0.5) / (having + 0.5) + 1.0).ln()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(texts: &[&str]) -> Index {
        let mut index = Index::default();
        for text in texts {
            index.add(&Document::default().with(text, 1.0));
        }
        index
    }

    fn found(index: &Index, query: &str) -> Vec<usize> {
        index.search(query, 10).iter().map(|hit| hit.document.index()).collect()
    }

    #[test]
    fn rare_words_count_more_than_common_ones() {
        let index = index(&["open file", "open socket", "open door", "file"]);
        assert_eq!(found(&index, "open socket"), [1, 0, 2]);
    }

    #[test]
    fn a_word_in_the_name_counts_more_than_one_in_the_text() {
        let mut index = Index::default();
        let text = index.add(&Document::default().with("run", 3.0).with("closes the connection", 1.0));
        let name = index.add(&Document::default().with("closeConnection", 3.0).with("runs", 1.0));
        let hits = index.search("close connection", 10);
        assert_eq!(hits.iter().map(|hit| hit.document).collect::<Vec<_>>(), [name, text]);
    }

    #[test]
    fn the_limit_keeps_the_best() {
        let index = index(&["word", "word word", "other", "word word word"]);
        assert_eq!(index.search("word", 2).len(), 2);
        assert_eq!(index.search("word", 0), []);
        assert_eq!(index.search("", 5), []);
    }

    proptest! {
        /// Removing documents leaves what would be there if they had never been added.
        #[test]
        fn removed_documents_leave_no_trace(
            texts in prop::collection::vec(("[abc]{1,2}( [abc]{1,2}){0,5}", any::<bool>()), 1..20),
            query in "[abc]{1,2}( [abc]{1,2}){0,3}",
        ) {
            let mut all = Index::default();
            let mut kept = Index::default();
            let mut pairs = Vec::new();
            for (text, stays) in &texts {
                let document = Document::default().with(text, 1.0);
                let id = all.add(&document);
                if *stays {
                    pairs.push((id, kept.add(&document)));
                } else {
                    prop_assert!(all.remove(id));
                    prop_assert!(!all.remove(id));
                }
            }
            let (scores, expected) = (all.scores(&query), kept.scores(&query));
            for (id, expected_id) in pairs {
                let (score, expected) = (scores[id.index()], expected[expected_id.index()]);
                prop_assert!((score - expected).abs() < 1e-4, "{} {}", score, expected);
            }
            prop_assert_eq!(all.len(), kept.len());

            let scores: Vec<f32> = scores.into_iter().enumerate().filter(|(at, _)| texts[*at].1).map(|(_, score)| score).collect();
            let moved = all.compact();
            prop_assert_eq!(all.scores(&query), scores, "a compaction changes no score");
            prop_assert_eq!(moved.iter().flatten().count(), kept.len());
            prop_assert_eq!(all.terms.len(), kept.terms.len());
            prop_assert_eq!(all.postings.len(), kept.postings.len());
            for document in moved.into_iter().flatten() {
                prop_assert!(all.remove(document));
            }
            prop_assert!(all.is_empty() && all.postings.iter().all(Vec::is_empty));
        }
    }
}

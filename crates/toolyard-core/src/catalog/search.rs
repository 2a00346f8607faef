//! Finds tools by words: names count most, then parameters, then descriptions; rare words count more.

use std::collections::HashMap;
use std::sync::Arc;

use toolyard_proto::splice::members;

use super::Entry;

const NAME_WEIGHT: f64 = 4.0;
const PARAMETER_WEIGHT: f64 = 1.5;
const DESCRIPTION_WEIGHT: f64 = 1.0;

/// The best matches of `query` among `entries`, best first; ties in catalog order.
pub fn search<'a>(entries: &'a [Arc<Entry>], query: &str, limit: usize) -> Vec<&'a Arc<Entry>> {
    let words = words(query);
    let documents: Vec<HashMap<String, f64>> = entries.iter().map(|entry| document(entry)).collect();
    let total = documents.len().max(1);
    let rarity = |word: &str| {
        let having = documents.iter().filter(|document| weight(document, word) > 0.0).count();
        #[expect(clippy::cast_precision_loss, reason = "a catalog has far fewer than 2^52 tools")]
        let ratio = (total + 1) as f64 / (having + 1) as f64;
        ratio.ln() + 0.1
    };
    let rarities: Vec<(String, f64)> = words
        .into_iter()
        .map(|word| {
            let r = rarity(&word);
            (word, r)
        })
        .collect();
    let score = |document: &HashMap<String, f64>| -> f64 {
        rarities.iter().map(|(word, rarity)| rarity * weight(document, word)).sum()
    };
    let mut ranked: Vec<(f64, &Arc<Entry>)> =
        documents.iter().map(score).zip(entries).filter(|(score, _)| *score > 0.0).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(limit).map(|(_, entry)| entry).collect()
}

/// A whole word scores fully, a prefix of another word scores half.
fn weight(document: &HashMap<String, f64>, word: &str) -> f64 {
    if let Some(weight) = document.get(word) {
        return *weight;
    }
    let begins =
        |(text, weight): (&String, &f64)| (word.len() >= 3 && text.starts_with(word)).then_some(weight * 0.5);
    document.iter().filter_map(begins).fold(0.0, f64::max)
}

fn document(entry: &Entry) -> HashMap<String, f64> {
    let mut out = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            let best: &mut f64 = out.entry(word).or_default();
            *best = best.max(weight);
        }
    };
    add(&entry.canonical, NAME_WEIGHT);
    let text = |path: &[&str]| entry.own.at(path).and_then(|raw| raw.as_string()).unwrap_or_default();
    add(&text(&["title"]), NAME_WEIGHT);
    add(&text(&["description"]), DESCRIPTION_WEIGHT);
    if let Some(properties) = entry.own.at(&["inputSchema", "properties"]) {
        for member in members(properties.as_bytes()) {
            add(&properties.slice(member.key.at).as_string().unwrap_or_default(), PARAMETER_WEIGHT);
        }
    }
    out
}

/// Lower-case words; `readFile`, `read_file` and `read file` are the same two.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut after_lower = false;
    for c in text.chars() {
        let boundary = !c.is_alphanumeric() || (after_lower && c.is_uppercase());
        if boundary && !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_told_apart_however_they_are_joined() {
        assert_eq!(words("files:readFile read_file READ"), ["files", "read", "file", "read", "file", "read"]);
    }
}

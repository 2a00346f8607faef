//! The file format of the models: a header, the vocabulary, and matrices of 8-bit numbers with a scale per row.

use std::collections::HashMap;

use super::Side;
use super::features::{FIELDS, Feature, Vocabulary};

const MAGIC: &[u8; 8] = b"TYCE1\0\0\0";
/// No size in a header may exceed this; real ones are far below.
const MAX_SIZE: usize = 1 << 20;

/// Why a file is not a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ModelError {
    #[error("it does not begin like a model file")]
    Magic,
    #[error("it ends too early")]
    Short,
    #[error("it has {0} bytes more than its header declares")]
    Long(usize),
    #[error("its header has a size that cannot be right")]
    Size,
    #[error("its vocabulary is not text or has another size than its header declares")]
    Vocabulary,
}

/// Reads numbers from the front of a file.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(ModelError::Magic)?;
        Ok(Self { rest })
    }

    pub(super) fn finish(self) -> Result<(), ModelError> {
        if self.rest.is_empty() { Ok(()) } else { Err(ModelError::Long(self.rest.len())) }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], ModelError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(ModelError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn size(&mut self) -> Result<usize, ModelError> {
        let bytes = self.bytes(4)?;
        let size = u32::from_le_bytes(bytes.try_into().map_err(|_| ModelError::Short)?) as usize;
        if size <= MAX_SIZE { Ok(size) } else { Err(ModelError::Size) }
    }

    pub(super) fn floats(&mut self, count: usize) -> Result<Vec<f32>, ModelError> {
        let bytes = self.bytes(count.checked_mul(4).ok_or(ModelError::Size)?)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    fn small(&mut self, count: usize) -> Result<Vec<i8>, ModelError> {
        Ok(self.bytes(count)?.iter().map(|byte| byte.cast_signed()).collect())
    }

    /// A matrix of `rows` × `columns`, transposed, so that multiplying runs along the rows in memory.
    pub(super) fn transposed(&mut self, rows: usize, columns: usize) -> Result<Vec<f32>, ModelError> {
        let small = self.small(rows.checked_mul(columns).ok_or(ModelError::Size)?)?;
        let scales = self.floats(rows)?;
        let mut out = vec![0.0; rows * columns];
        for (row, scale) in scales.iter().enumerate() {
            for column in 0..columns {
                out[column * rows + row] = f32::from(small[row * columns + column]) * scale;
            }
        }
        Ok(out)
    }
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) dimensions: usize,
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    /// How many distinct words the transformer looks at.
    pub(super) max_words: usize,
}

/// The part that both models have: a vector and two weights per word.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) shape: Shape,
    pub(super) vocabulary: Vocabulary,
    vectors: Vec<i8>,
    scales: Vec<f32>,
    for_queries: Vec<f32>,
    for_documents: Vec<f32>,
    by_field: Vec<f32>,
}

impl Weights {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ModelError> {
        let (known, buckets) = (reader.size()?, reader.size()?);
        let shape = Shape {
            dimensions: reader.size()?,
            layers: reader.size()?,
            hidden: reader.size()?,
            heads: reader.size()?,
            max_words: reader.size()?,
        };
        let is_divisible =
            shape.layers == 0 || shape.heads > 0 && shape.dimensions.is_multiple_of(shape.heads);
        if buckets == 0 || shape.dimensions == 0 || !is_divisible {
            return Err(ModelError::Size);
        }
        let words = read_words(reader, known)?;
        let rows = known + buckets;
        let vectors = reader.small(rows.checked_mul(shape.dimensions).ok_or(ModelError::Size)?)?;
        let scales = reader.floats(rows)?;
        let mut weights = || Ok(reader.floats(rows)?.iter().map(|weight| weight.exp()).collect());
        let (for_queries, for_documents) = (weights()?, weights()?);
        let buckets = u32::try_from(buckets).map_err(|_| ModelError::Size)?;
        Ok(Self {
            shape,
            vocabulary: Vocabulary { words, buckets },
            vectors,
            scales,
            for_queries,
            for_documents,
            by_field: reader.floats(FIELDS)?,
        })
    }

    /// The vector of one word.
    pub(super) fn vector(&self, row: usize) -> impl Iterator<Item = f32> {
        let dimensions = self.shape.dimensions;
        let scale = self.scales[row];
        self.vectors[row * dimensions..(row + 1) * dimensions].iter().map(move |x| f32::from(*x) * scale)
    }

    /// How much one word counts.
    pub(super) fn weight(&self, feature: &Feature, side: Side) -> f32 {
        let counts = feature.log_counts();
        match side {
            Side::Query => self.for_queries[feature.row] * counts[FIELDS - 1],
            Side::Document => {
                let counted: f32 =
                    counts.iter().zip(&self.by_field).map(|(count, weight)| count * weight).sum();
                self.for_documents[feature.row] * counted
            }
        }
    }

    /// The fast model: the sum of the words' vectors by their weights.
    pub(super) fn weighted_sum(&self, features: &[Feature], side: Side) -> Vec<f32> {
        let mut sum = vec![0.0; self.shape.dimensions];
        for feature in features {
            let weight = self.weight(feature, side);
            for (sum, x) in sum.iter_mut().zip(self.vector(feature.row)) {
                *sum += weight * x;
            }
        }
        sum
    }
}

fn read_words(reader: &mut Reader<'_>, known: usize) -> Result<HashMap<Box<str>, u32>, ModelError> {
    let length = {
        let bytes = reader.bytes(4)?;
        u32::from_le_bytes(bytes.try_into().map_err(|_| ModelError::Short)?) as usize
    };
    let text = std::str::from_utf8(reader.bytes(length)?).map_err(|_| ModelError::Vocabulary)?;
    let words: HashMap<Box<str>, u32> =
        (0..).zip(text.split('\n')).map(|(id, word)| (word.into(), id)).collect();
    if words.len() == known { Ok(words) } else { Err(ModelError::Vocabulary) }
}

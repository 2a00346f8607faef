//! The precise model: transformer layers over the distinct words of a text, which change how much each word counts.

use super::Side;
use super::features::{FIELDS, Feature};
use super::file::{ModelError, Reader, Shape, Weights};

/// Keeps the variance of a row away from zero.
const EPSILON: f32 = 1e-5;
/// The gate of a word is limited to this on either side.
const MAX_GATE: f32 = 3.0;

#[derive(Debug)]
pub(super) struct Transformer {
    shape: Shape,
    /// What the counts of a word add to its vector.
    counts: Vec<f32>,
    counts_bias: Vec<f32>,
    query_side: Vec<f32>,
    document_side: Vec<f32>,
    positions: Vec<f32>,
    layers: Vec<Layer>,
    last_norm: Norm,
    correction: Vec<f32>,
    gate: Vec<f32>,
    gate_bias: f32,
}

#[derive(Debug)]
struct Layer {
    attention: Linear,
    attention_out: Linear,
    expand: Linear,
    contract: Linear,
    norm_before_attention: Norm,
    norm_before_expand: Norm,
}

/// A matrix, transposed, and what is added after it.
#[derive(Debug)]
struct Linear {
    matrix: Vec<f32>,
    bias: Vec<f32>,
}

#[derive(Debug)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Transformer {
    pub(super) fn read(reader: &mut Reader<'_>, shape: &Shape) -> Result<Self, ModelError> {
        let d = shape.dimensions;
        let counts = reader.floats(d * FIELDS)?;
        let counts_bias = reader.floats(d)?;
        let query_side = reader.floats(d)?;
        let document_side = reader.floats(d)?;
        let positions = reader.floats(shape.max_words * d)?;
        let mut layers = Vec::new();
        for _ in 0..shape.layers {
            layers.push(Layer::read(reader, d, shape.hidden)?);
        }
        let last_norm = Norm::read(reader, d)?;
        let correction = reader.transposed(d, d)?;
        let gate = reader.floats(d)?;
        let gate_bias = reader.floats(1)?[0];
        Ok(Self {
            shape: *shape,
            counts,
            counts_bias,
            query_side,
            document_side,
            positions,
            layers,
            last_norm,
            correction,
            gate,
            gate_bias,
        })
    }

    pub(super) fn encode(&self, weights: &Weights, features: &[Feature], side: Side) -> Vec<f32> {
        let d = self.shape.dimensions;
        let features = &features[..features.len().min(self.shape.max_words)];
        let words: Vec<f32> = features.iter().flat_map(|feature| weights.vector(feature.row)).collect();
        let mut state = self.first_state(&words, features, side);
        for layer in &self.layers {
            layer.apply(&mut state, d, self.shape.heads);
        }
        let state = self.last_norm.apply(&state, d);
        let mut sum = vec![0.0; d];
        let mut seen = vec![0.0; d];
        for (at, feature) in features.iter().enumerate() {
            let row = &state[at * d..(at + 1) * d];
            let gate = dot(row, &self.gate) + self.gate_bias;
            let weight = weights.weight(feature, side) * gate.clamp(-MAX_GATE, MAX_GATE).exp();
            add_scaled(&mut sum, weight, &words[at * d..(at + 1) * d]);
            add_scaled(&mut seen, weight, row);
        }
        // The correction is linear, so it is applied once to the sum.
        let corrected = multiply(&seen, d, &self.correction, &[], d);
        add_scaled(&mut sum, 1.0, &corrected);
        sum
    }

    /// Each word's vector with what its counts, its place and its side add.
    fn first_state(&self, words: &[f32], features: &[Feature], side: Side) -> Vec<f32> {
        let d = self.shape.dimensions;
        let side = match side {
            Side::Query => &self.query_side,
            Side::Document => &self.document_side,
        };
        #[expect(clippy::cast_precision_loss, reason = "a dimension is a small number")]
        let scale = (d as f32).sqrt();
        let mut state = Vec::with_capacity(words.len());
        for (at, feature) in features.iter().enumerate() {
            let counts = feature.log_counts();
            for j in 0..d {
                let counted = dot(&counts, &self.counts[j * FIELDS..(j + 1) * FIELDS]);
                let place = self.positions[at * d + j];
                state.push(words[at * d + j] * scale + counted + self.counts_bias[j] + place + side[j]);
            }
        }
        state
    }
}

impl Layer {
    fn read(reader: &mut Reader<'_>, d: usize, hidden: usize) -> Result<Self, ModelError> {
        Ok(Self {
            attention: Linear::read(reader, 3 * d, d)?,
            attention_out: Linear::read(reader, d, d)?,
            expand: Linear::read(reader, hidden, d)?,
            contract: Linear::read(reader, d, hidden)?,
            norm_before_attention: Norm::read(reader, d)?,
            norm_before_expand: Norm::read(reader, d)?,
        })
    }

    fn apply(&self, state: &mut [f32], d: usize, heads: usize) {
        let normed = self.norm_before_attention.apply(state, d);
        let projected = self.attention.apply(&normed, d);
        let attended = attend(&projected, d, heads);
        add_scaled(state, 1.0, &self.attention_out.apply(&attended, d));
        let normed = self.norm_before_expand.apply(state, d);
        let mut hidden = self.expand.apply(&normed, d);
        for x in &mut hidden {
            *x = gelu(*x);
        }
        let width = self.expand.bias.len();
        add_scaled(state, 1.0, &self.contract.apply(&hidden, width));
    }
}

impl Linear {
    fn read(reader: &mut Reader<'_>, rows: usize, columns: usize) -> Result<Self, ModelError> {
        let matrix = reader.transposed(rows, columns)?;
        Ok(Self { matrix, bias: reader.floats(rows)? })
    }

    /// Every row of `input`, each of `width` numbers, through the matrix.
    fn apply(&self, input: &[f32], width: usize) -> Vec<f32> {
        multiply(input, width, &self.matrix, &self.bias, self.bias.len())
    }
}

impl Norm {
    fn read(reader: &mut Reader<'_>, d: usize) -> Result<Self, ModelError> {
        Ok(Self { weight: reader.floats(d)?, bias: reader.floats(d)? })
    }

    #[expect(clippy::cast_precision_loss, reason = "a dimension is a small number")]
    fn apply(&self, rows: &[f32], d: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(rows.len());
        for row in rows.chunks_exact(d) {
            let mean = row.iter().sum::<f32>() / d as f32;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / d as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            let normed = row.iter().zip(&self.weight).zip(&self.bias);
            out.extend(normed.map(|((x, weight), bias)| (x - mean) * scale * weight + bias));
        }
        out
    }
}

/// Attention: for each head, every word takes from every other by how well query and key agree.
#[expect(clippy::cast_precision_loss, reason = "a dimension is a small number")]
fn attend(projected: &[f32], d: usize, heads: usize) -> Vec<f32> {
    let words = projected.len() / (3 * d);
    let width = d / heads;
    let scale = 1.0 / (width as f32).sqrt();
    let part = |word: usize, kind: usize, head: usize| {
        let from = word * 3 * d + kind * d + head * width;
        &projected[from..from + width]
    };
    let mut out = vec![0.0; words * d];
    let mut shares = vec![0.0; words];
    for head in 0..heads {
        for word in 0..words {
            let query = part(word, 0, head);
            for (other, share) in shares.iter_mut().enumerate() {
                *share = dot(query, part(other, 1, head)) * scale;
            }
            soft_max(&mut shares);
            let out = &mut out[word * d + head * width..][..width];
            for (other, share) in shares.iter().enumerate() {
                add_scaled(out, *share, part(other, 2, head));
            }
        }
    }
    out
}

fn soft_max(values: &mut [f32]) {
    let largest = values.iter().copied().fold(f32::MIN, f32::max);
    for value in &mut *values {
        *value = (*value - largest).exp();
    }
    let sum: f32 = values.iter().sum();
    for value in &mut *values {
        *value /= sum;
    }
}

/// Four rows of `input` at a time through `matrix` (`width` × `out_width`), plus `bias` where there is one.
fn multiply(input: &[f32], width: usize, matrix: &[f32], bias: &[f32], out_width: usize) -> Vec<f32> {
    let rows = input.len() / width;
    let mut out = if bias.is_empty() { vec![0.0; rows * out_width] } else { bias.repeat(rows) };
    for (input, out) in input.chunks(4 * width).zip(out.chunks_mut(4 * out_width)) {
        if input.len() == 4 * width {
            multiply_four(input, width, matrix, out, out_width);
        } else {
            for (input, out) in input.chunks_exact(width).zip(out.chunks_exact_mut(out_width)) {
                for (x, weights) in input.iter().zip(matrix.chunks_exact(out_width)) {
                    add_scaled(out, *x, weights);
                }
            }
        }
    }
    out
}

/// Reads each row of the matrix once for four rows of input.
fn multiply_four(input: &[f32], width: usize, matrix: &[f32], out: &mut [f32], out_width: usize) {
    let (out_0, rest) = out.split_at_mut(out_width);
    let (out_1, rest) = rest.split_at_mut(out_width);
    let (out_2, out_3) = rest.split_at_mut(out_width);
    for (i, weights) in matrix.chunks_exact(out_width).enumerate() {
        let x = [input[i], input[width + i], input[2 * width + i], input[3 * width + i]];
        let outs = out_0.iter_mut().zip(out_1.iter_mut()).zip(out_2.iter_mut()).zip(out_3.iter_mut());
        for ((((out_0, out_1), out_2), out_3), weight) in outs.zip(weights) {
            *out_0 += x[0] * weight;
            *out_1 += x[1] * weight;
            *out_2 += x[2] * weight;
            *out_3 += x[3] * weight;
        }
    }
}

fn add_scaled(out: &mut [f32], scale: f32, values: &[f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out += scale * value;
    }
}

/// Eight sums side by side, which the compiler can keep in one register.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// The tanh form, with tanh by one exponential.
fn gelu(x: f32) -> f32 {
    let z = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    let e = (-2.0 * z.abs()).exp();
    let tanh = ((1.0 - e) / (1.0 + e)).copysign(z);
    0.5 * x * (1.0 + tanh)
}

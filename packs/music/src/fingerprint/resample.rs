//! Resamples from any rate to the one rate that Chromaprint uses, as `fpcalc` does it: a sinc of 16 crossings
//! under a Kaiser window, cut off at 0.8 of the lower rate, in 256 phases with a straight line between them.
//!
//! `rusty-chromaprint` has a resampler, but a filter of 16 samples whatever the rates, which lets so much through
//! from above that a bit in forty of the fingerprint changed.

use std::f64::consts::PI;

/// The rate that Chromaprint uses.
pub(super) const RATE: u32 = 11_025;

const CROSSINGS: f64 = 16.0;
const CUTOFF: f64 = 0.8;
const PHASES: u32 = 256;
const KAISER: f64 = 9.0;

/// One channel, from one rate to [`RATE`].
pub(super) struct Resampler {
    from: u64,
    taps: usize,
    /// The weights of every phase, and once more those of the first, one sample on.
    kernel: Vec<f64>,
    /// Samples that the next output may still need.
    held: Vec<f32>,
    /// The position of the next output, counted from the first held sample: whole samples, and a fraction in parts of
    /// [`RATE`].
    place: (usize, u64),
}

impl Resampler {
    pub(super) fn new(from: u32) -> Self {
        let factor = (f64::from(RATE) * CUTOFF / f64::from(from)).min(1.0);
        // Samples at the right rate stay as they are.
        let taps = if from == RATE { 1 } else { whole(CROSSINGS / factor) };
        let kernel = (0..=PHASES).flat_map(|phase| weights(factor, taps, phase)).collect();
        // The first output is at the first sample, so that many samples are missing before it.
        let held = vec![0.0; before(taps)];
        Self { from: u64::from(from), taps, kernel, held, place: (0, 0) }
    }

    /// Takes in some samples and appends what comes out.
    pub(super) fn feed(&mut self, samples: &[f32], out: &mut Vec<i16>) {
        self.held.extend_from_slice(samples);
        while let Some(window) = self.held.get(self.place.0..).and_then(|rest| rest.get(..self.taps)) {
            out.push(self.at(window));
            let parts = self.place.1 + self.from;
            let passed = usize::try_from(parts / u64::from(RATE)).unwrap_or(usize::MAX);
            self.place = (self.place.0.saturating_add(passed), parts % u64::from(RATE));
        }
        let done = self.place.0.min(self.held.len());
        self.held.drain(..done);
        self.place.0 -= done;
    }

    /// Appends what is left: after the last sample there is silence.
    pub(super) fn finish(mut self, out: &mut Vec<i16>) {
        let silence = vec![0.0; self.taps - 1 - before(self.taps)];
        self.feed(&silence, out);
    }

    #[expect(clippy::cast_precision_loss, reason = "parts of a rate")]
    fn at(&self, window: &[f32]) -> i16 {
        let phase = self.place.1 * u64::from(PHASES);
        let share = (phase % u64::from(RATE)) as f64 / f64::from(RATE);
        let start = usize::try_from(phase / u64::from(RATE)).unwrap_or(0) * self.taps;
        let (one, next) = self.kernel[start..start + 2 * self.taps].split_at(self.taps);
        let here = dot(one, window);
        // Always the case where the rates divide, as with 44,100 Hz.
        let value = if share == 0.0 { here } else { here + (dot(next, window) - here) * share };
        sample(value)
    }
}

fn dot(weights: &[f64], window: &[f32]) -> f64 {
    let mut sum = 0.0;
    for (weight, sample) in weights.iter().zip(window) {
        sum += weight * f64::from(*sample);
    }
    sum
}

/// From -1 … 1.
#[expect(clippy::cast_possible_truncation, reason = "clamped to what fits")]
fn sample(value: f64) -> i16 {
    (value * 32_768.0).round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

fn before(taps: usize) -> usize {
    (taps - 1) / 2
}

/// The weights of the samples around an output at `phase` parts of the way to the next sample.
#[expect(clippy::cast_precision_loss, reason = "a few hundred taps")]
fn weights(factor: f64, taps: usize, phase: u32) -> Vec<f64> {
    if taps == 1 {
        return vec![1.0];
    }
    let middle = before(taps) as f64 + f64::from(phase) / f64::from(PHASES);
    let weight = |tap: usize| {
        let distance = tap as f64 - middle;
        sinc(PI * distance * factor) * kaiser(2.0 * distance / taps as f64)
    };
    let weights: Vec<f64> = (0..taps).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn sinc(x: f64) -> f64 {
    if x.abs() < 1e-12 { 1.0 } else { x.sin() / x }
}

/// Up to a factor, which the weights lose anyway. `place` is -1 … 1.
fn kaiser(place: f64) -> f64 {
    bessel(KAISER * (1.0 - place * place).max(0.0).sqrt())
}

/// The modified Bessel function of order zero, by its power series.
fn bessel(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let mut sum = 1.0;
    let mut term = 1.0;
    let mut k = 1.0;
    while term > sum * 1e-17 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
fn whole(value: f64) -> usize {
    (value.ceil() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::cast_possible_truncation, reason = "a second of sound")]
    fn wave(frequency: f64, rate: u32) -> Vec<f32> {
        let at = |n: u32| (2.0 * PI * frequency * f64::from(n) / f64::from(rate)).sin() as f32 * 0.5;
        (0..rate).map(at).collect()
    }

    /// In pieces of that size.
    fn resampled(rate: u32, samples: &[f32], piece: usize) -> Vec<i16> {
        let (mut resampler, mut out) = (Resampler::new(rate), Vec::new());
        for piece in samples.chunks(piece) {
            resampler.feed(piece, &mut out);
        }
        resampler.finish(&mut out);
        out
    }

    #[test]
    fn a_tone_stays_the_tone_whatever_the_rate() {
        for rate in [8_000, 16_000, 22_050, 32_000, 44_100, 48_000, 88_200, 96_000, 192_000, 12_345] {
            let out = resampled(rate, &wave(440.0, rate), 1_000);
            assert_eq!(out.len(), usize::try_from(RATE).unwrap(), "from {rate}");
            let expected: Vec<i16> =
                wave(440.0, RATE).into_iter().map(|value| sample(f64::from(value))).collect();
            let inner = 100..out.len() - 100;
            let worst = out[inner.clone()].iter().zip(&expected[inner]).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst < Some(20), "from {rate}: {worst:?}");
        }
    }

    #[test]
    fn frequencies_above_the_lower_rate_are_removed() {
        for (rate, frequency) in [(44_100, 7_000.0), (48_000, 9_000.0), (96_000, 20_000.0)] {
            let out = resampled(rate, &wave(frequency, rate), 4_096);
            let loudest = out[100..out.len() - 100].iter().map(|value| value.unsigned_abs()).max();
            assert!(loudest < Some(10), "{frequency} Hz at {rate}: {loudest:?}");
        }
    }

    #[test]
    fn samples_at_the_right_rate_are_unchanged() {
        let wave = wave(440.0, RATE);
        let expected: Vec<i16> = wave.iter().map(|value| sample(f64::from(*value))).collect();
        assert_eq!(resampled(RATE, &wave, 100), expected);
    }

    #[test]
    fn pieces_of_any_size_make_the_same_whole() {
        let samples = wave(1_234.0, 48_000);
        let whole = resampled(48_000, &samples, samples.len());
        for piece in [1, 7, 79, 4_096] {
            assert_eq!(resampled(48_000, &samples, piece), whole, "in pieces of {piece}");
        }
    }
}

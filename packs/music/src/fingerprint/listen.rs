//! Computes the fingerprint of a file's samples: the silence before it is left out, the channels become one, and
//! the rate the one at which Chromaprint listens.

use rusty_chromaprint::{Configuration, Fingerprinter};

use super::SECONDS;
use super::resample::{RATE, Resampler};

/// The highest sample rate; the filter for a far higher one would fill the memory.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;

pub(super) struct Listener {
    printer: Fingerprinter,
    resampler: Resampler,
    rate: u32,
    /// Moments to leave out, then moments to use.
    skip: u64,
    left: u64,
    mono: Vec<f32>,
    out: Vec<i16>,
}

impl Listener {
    /// `lead` is the silence before the recording, in seconds.
    pub(super) fn new(rate: u32, lead: f64) -> Result<Self, String> {
        if !RATES.contains(&rate) {
            return Err(format!("a rate of {rate} Hz is not supported"));
        }
        let mut printer = Fingerprinter::new(&Configuration::preset_test2());
        printer.start(RATE, 1).map_err(|error| error.to_string())?;
        let (skip, left) = (moments(lead, rate), SECONDS * u64::from(rate));
        let resampler = Resampler::new(rate);
        Ok(Self { printer, resampler, rate, skip, left, mono: Vec::new(), out: Vec::new() })
    }

    /// Takes in samples of all channels in turn; answers whether to go on. If the sample rate changes, the rest of
    /// the recording is ignored.
    pub(super) fn add(&mut self, rate: u32, channels: usize, samples: &[f32]) -> bool {
        if rate != self.rate {
            return false;
        }
        self.mix(channels.max(1), samples);
        self.out.clear();
        self.resampler.feed(&self.mono, &mut self.out);
        self.printer.consume(&self.out);
        self.left > 0
    }

    pub(super) fn finish(mut self) -> Vec<u32> {
        self.out.clear();
        self.resampler.finish(&mut self.out);
        self.printer.consume(&self.out);
        self.printer.finish();
        self.printer.fingerprint().to_vec()
    }

    /// Averages the channels of the moments to use.
    #[expect(clippy::cast_precision_loss, reason = "a few channels")]
    fn mix(&mut self, channels: usize, samples: &[f32]) {
        let moments = samples.len() / channels;
        let skipped = moments.min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= skipped as u64;
        let used = (moments - skipped).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= used as u64;
        let moments = samples.chunks_exact(channels).skip(skipped).take(used);
        self.mono.clear();
        self.mono.extend(moments.map(|moment| moment.iter().sum::<f32>() / channels as f32));
    }
}

/// The number of samples in `lead` seconds. Only an invalid file has a lead of 10 s or more, which is ignored.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few thousand, and not negative"
)]
fn moments(lead: f64, rate: u32) -> u64 {
    if lead < 10.0 { (lead.max(0.0) * f64::from(rate)).round() as u64 } else { 0 }
}

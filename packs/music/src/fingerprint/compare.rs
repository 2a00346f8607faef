//! How different two recordings sound.

/// The largest shift between two recordings: some four seconds.
const MOST_SHIFT: usize = 32;
/// Fewer items prove nothing.
const FEWEST: usize = 12;

/// The share of bits that differ where the two fit best; half of them do for unrelated recordings.
pub(crate) fn difference(one: &[u32], other: &[u32]) -> f64 {
    let shifts = (0..=MOST_SHIFT).flat_map(|shift| [(shift, 0), (0, shift)]);
    shifts.filter_map(|(a, b)| at(one.get(a..)?, other.get(b..)?)).fold(1.0, f64::min)
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand items")]
fn at(one: &[u32], other: &[u32]) -> Option<f64> {
    let length = one.len().min(other.len());
    if length < FEWEST {
        return None;
    }
    let bits: u32 = one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum();
    Some(f64::from(bits) / (32.0 * length as f64))
}

//! Our fingerprints against those of Debian's `fpcalc`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// Chords with overtones that change and fade.
const CHORDS: &str = "aevalsrc=exprs='(sin(2*PI*t*110*pow(2\\,mod(floor(t*2)\\,9)/12))+0.6*sin(4*PI*t*110*pow(2\\,mod(floor(t*2)\\,9)/12))+0.5*sin(2*PI*t*165*pow(2\\,mod(floor(t*1.5)\\,7)/12))+0.4*sin(6*PI*t*131*pow(2\\,mod(floor(t)\\,5)/12)))*0.2*exp(-1.5*mod(t\\,0.5))|(sin(2*PI*t*220*pow(2\\,mod(floor(t*4)\\,11)/12))+0.5*sin(6*PI*t*98*pow(2\\,mod(floor(t*2)\\,8)/12)))*0.2':d=12:s=44100";
/// Two voices of pure tones, far apart in the end.
const TONES: &str =
    "aevalsrc=exprs='sin(2*PI*t*(220+90*floor(t*2.5)))*0.4|sin(2*PI*t*(330+60*floor(t*2)))*0.4':d=12:s=44100";
/// From the lowest to the highest, over and over: nothing above what is listened to may come back lower.
const SWEEP: &str = "aevalsrc=exprs='sin(2*PI*t*(40+9000*mod(t\\,3)))*0.5':d=12:s=48000";
const NOISE: &str = "anoisesrc=color=pink:seed=7:amplitude=0.5:duration=12:sample_rate=44100";

/// Similar to a band: chords over noise.
fn band() -> String {
    format!(
        "{CHORDS},aformat=channel_layouts=stereo[tones];{NOISE},aformat=channel_layouts=stereo[noise];[tones][noise]amix=inputs=2"
    )
}

/// A name for each format, and its ffmpeg options.
const FORMATS: [(&str, &[&str]); 5] = [
    ("wav", &["-c:a", "pcm_s16le"]),
    ("flac", &["-c:a", "flac"]),
    ("mp3", &["-c:a", "libmp3lame", "-b:a", "192k"]),
    ("ogg", &["-c:a", "libvorbis"]),
    ("m4a", &["-c:a", "aac", "-b:a", "192k"]),
];

fn make(folder: &Path, signal: &str, name: &str, flags: &[&str]) -> PathBuf {
    ffmpeg(&[&["-f", "lavfi", "-i", signal], flags].concat(), folder.join(name))
}

fn ffmpeg(arguments: &[&str], to: PathBuf) -> PathBuf {
    let made =
        Command::new("ffmpeg").args(["-nostdin", "-v", "error", "-y"]).args(arguments).arg(&to).status();
    assert!(made.expect("ffmpeg, which `cargo xtask ci` installs").success());
    to
}

fn raw(path: &Path) -> Vec<u32> {
    let output = Command::new("fpcalc").args(["-raw", "-json"]).arg(path).output().expect("fpcalc");
    let output: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    output["fingerprint"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| u32::try_from(item.as_u64().unwrap()).unwrap())
        .collect()
}

fn config(fpcalc: &str) -> Config {
    serde_json::from_value(serde_json::json!({ "root": ".", "fpcalc": fpcalc })).unwrap()
}

fn ours(path: &Path) -> Fingerprint {
    take(&config(""), File::open(path).unwrap(), path.to_str().unwrap(), &|| false).unwrap()
}

/// The share of bits that differ, item by item: nothing may be shifted.
#[expect(clippy::cast_precision_loss, reason = "some hundred items")]
fn error(ours: &[u32], theirs: &[u32]) -> f64 {
    assert_eq!(ours.len(), theirs.len(), "as many items");
    let bits: u32 = ours.iter().zip(theirs).map(|(a, b)| (a ^ b).count_ones()).sum();
    f64::from(bits) / (32.0 * ours.len() as f64)
}

/// Far less than the 2 % that would do: what is left is rounding.
fn check(what: &str, signal: &str, flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let wav = make(folder.path(), signal, "made.wav", flags);
    for (format, flags) in FORMATS {
        let from = ["-i", wav.to_str().unwrap()];
        let path = ffmpeg(&[&from, flags].concat(), folder.path().join(format!("a.{format}")));
        check_file(&format!("{what}, {format}"), &path);
    }
}

#[expect(clippy::print_stdout, reason = "shows the figure with `--no-capture`")]
fn check_file(what: &str, path: &Path) {
    let wrong = error(&ours(path).items, &raw(path));
    println!("{what}: {:.3} % of bits differ", wrong * 100.0);
    assert!(wrong < 0.005, "{what}: {wrong}");
}

#[test]
fn chords_over_noise_have_the_fingerprint_of_fpcalc() {
    check("band", &band(), &[]);
}

#[test]
fn chords_have_the_fingerprint_of_fpcalc() {
    check("chords", CHORDS, &[]);
}

#[test]
fn pure_tones_have_the_fingerprint_of_fpcalc() {
    check("tones", TONES, &[]);
}

#[test]
fn a_sweep_has_the_fingerprint_of_fpcalc() {
    check("sweep", SWEEP, &[]);
}

#[test]
fn noise_has_the_fingerprint_of_fpcalc() {
    check("noise", NOISE, &[]);
}

#[test]
fn other_rates_and_one_channel_have_the_fingerprint_of_fpcalc() {
    check("chords at 48 kHz", CHORDS, &["-ar", "48000"]);
    check("chords at 22.05 kHz, mono", CHORDS, &["-ar", "22050", "-ac", "1"]);
}

#[test]
fn two_minutes_are_listened_to_as_fpcalc_does() {
    let folder = tempfile::tempdir().unwrap();
    let long = TONES.replace("d=12:s=44100", "d=140:s=8000");
    let path = make(folder.path(), &long, "a.flac", &["-ac", "1"]);
    check_file("140 s", &path);
    let duration = ours(&path).duration;
    assert!((139.9..140.1).contains(&duration), "{duration}");
}

/// As Apple's older programs do: no edit list, but a tag with the length of the encoder's silence.
#[test]
fn silence_that_only_a_tag_declares_is_left_out() {
    use lofty::config::WriteOptions;
    use lofty::mp4::{Atom, AtomData, AtomIdent, Ilst};
    use lofty::tag::TagExt as _;
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-c:a", "aac", "-b:a", "192k", "-use_editlist", "0"];
    let path = make(folder.path(), TONES, "a.m4a", &flags);
    let untold = ours(&path).items;
    let mut tag = Ilst::new();
    let name = AtomIdent::Freeform { mean: "com.apple.iTunes".into(), name: "iTunSMPB".into() };
    let text = " 00000000 00000400 00000000 0000000000081330 00000000 00000000".to_owned();
    tag.insert(Atom::new(name, AtomData::UTF8(text)));
    tag.save_to_path(&path, WriteOptions::default()).unwrap();
    assert_eq!(edits::lead(&File::open(&path).unwrap()), Some(1024.0 / 44_100.0));
    assert_ne!(ours(&path).items, untold);
    check_file("iTunSMPB", &path);
}

#[test]
fn broken_mp4_files_have_no_lead_or_some_lead_but_cause_no_panic() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let path = make(folder.path(), "sine=duration=0.2", "a.m4a", &["-c:a", "aac"]);
    let good = std::fs::read(path).unwrap();
    let head = good.windows(4).position(|window| window == b"moov").unwrap() - 4;
    proptest::proptest!(|(at in head..good.len(), byte: u8, cut in head..good.len())| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes.truncate(cut.max(at));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        // Whatever the bytes are, `lead` returns and does not panic.
        let _ = edits::lead(&file);
    });
}

#[test]
fn formats_that_cannot_be_decoded_are_left_to_fpcalc() {
    let folder = tempfile::tempdir().unwrap();
    let path = make(folder.path(), &band(), "a.opus", &["-c:a", "libopus", "-ar", "48000"]);
    let open = || File::open(&path).unwrap();
    let theirs = raw(&path);
    assert_eq!(take(&config("fpcalc"), open(), "a.opus", &|| false).unwrap().items, theirs);
    let without = take(&config(""), open(), "a.opus", &|| false).unwrap_err().to_string();
    assert!(
        without.contains("cannot be fingerprinted") && without.contains("Hint: set `fpcalc`"),
        "{without}"
    );
    let missing = take(&config("no-such-program"), open(), "a.opus", &|| false).unwrap_err().to_string();
    assert!(missing.contains("cannot be started") && missing.contains("libchromaprint-tools"), "{missing}");
}

//! Decodes a file into samples.

use std::fs::File;

use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use crate::walk::extension;

/// After this many bad packets the file is given up: a broken file may have hours of them.
const MOST_BAD: usize = 1_000;

/// Samples of all channels in turn, at this rate; answers whether to go on.
type Consume<'a> = dyn FnMut(u32, usize, &[f32]) -> Result<bool, String> + 'a;

pub(super) fn decode(file: File, name: &str, consume: &mut Consume<'_>) -> Result<(), String> {
    let to_text = |error: Error| error.to_string();
    let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
    let mut hint = Hint::new();
    hint.with_extension(&extension(name));
    let mut format = symphonia::default::get_probe()
        .probe(&hint, stream, FormatOptions::default(), MetadataOptions::default())
        .map_err(to_text)?;
    let track = format.default_track(TrackType::Audio).ok_or("there is no sound in it")?;
    let parameters = track.codec_params.as_ref().and_then(|parameters| parameters.audio());
    let parameters = parameters.ok_or("its codec is unknown")?;
    let options = AudioDecoderOptions::default();
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(parameters, &options).map_err(to_text)?;
    let id = track.id;
    let (mut samples, mut bad) = (Vec::<f32>::new(), 0);
    loop {
        let packet = match format.next_packet() {
            Ok(Some(packet)) => packet,
            // A truncated file is used as far as it goes.
            Ok(None) | Err(Error::IoError(_)) => return Ok(()),
            Err(error) => return Err(to_text(error)),
        };
        if packet.track_id != id {
            continue;
        }
        match decoder.decode(&packet) {
            Ok(audio) => {
                samples.resize(audio.samples_interleaved(), 0.0);
                audio.copy_to_slice_interleaved(&mut samples);
                if !consume(audio.spec().rate(), audio.spec().channels().count(), &samples)? {
                    return Ok(());
                }
            }
            Err(Error::DecodeError(_)) if bad < MOST_BAD => bad += 1,
            Err(error) => return Err(to_text(error)),
        }
    }
}

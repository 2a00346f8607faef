//! Pictures in audio files.

use lofty::picture::{MimeType, Picture, PictureType};
use lofty::tag::TagType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::ToolError;

/// The largest picture that is put into a file.
pub(crate) const LARGEST: usize = 10 * 1024 * 1024;

/// What a picture shows, by the names of ID3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Shows {
    Other,
    Icon,
    OtherIcon,
    #[default]
    CoverFront,
    CoverBack,
    Leaflet,
    Media,
    LeadArtist,
    Artist,
    Conductor,
    Band,
    Composer,
    Lyricist,
    RecordingLocation,
    DuringRecording,
    DuringPerformance,
    ScreenCapture,
    BrightFish,
    Illustration,
    BandLogo,
    PublisherLogo,
}

const ALL: [(Shows, PictureType); 21] = [
    (Shows::Other, PictureType::Other),
    (Shows::Icon, PictureType::Icon),
    (Shows::OtherIcon, PictureType::OtherIcon),
    (Shows::CoverFront, PictureType::CoverFront),
    (Shows::CoverBack, PictureType::CoverBack),
    (Shows::Leaflet, PictureType::Leaflet),
    (Shows::Media, PictureType::Media),
    (Shows::LeadArtist, PictureType::LeadArtist),
    (Shows::Artist, PictureType::Artist),
    (Shows::Conductor, PictureType::Conductor),
    (Shows::Band, PictureType::Band),
    (Shows::Composer, PictureType::Composer),
    (Shows::Lyricist, PictureType::Lyricist),
    (Shows::RecordingLocation, PictureType::RecordingLocation),
    (Shows::DuringRecording, PictureType::DuringRecording),
    (Shows::DuringPerformance, PictureType::DuringPerformance),
    (Shows::ScreenCapture, PictureType::ScreenCapture),
    (Shows::BrightFish, PictureType::BrightFish),
    (Shows::Illustration, PictureType::Illustration),
    (Shows::BandLogo, PictureType::BandLogo),
    (Shows::PublisherLogo, PictureType::PublisherLogo),
];

impl From<Shows> for PictureType {
    fn from(shows: Shows) -> Self {
        ALL.iter().find(|(own, _)| *own == shows).map_or(Self::Other, |(_, theirs)| *theirs)
    }
}

impl From<PictureType> for Shows {
    fn from(kind: PictureType) -> Self {
        ALL.iter().find(|(_, theirs)| *theirs == kind).map_or(Self::Other, |(own, _)| *own)
    }
}

/// What is known of a picture without looking at it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PictureAbout {
    /// Its number in the file, for `extract_picture`.
    pub(crate) index: usize,
    pub(crate) picture_type: Shows,
    pub(crate) mime_type: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) bytes: usize,
}

impl PictureAbout {
    pub(crate) fn new(index: usize, kind: TagType, picture: &Picture) -> Self {
        Self {
            index,
            picture_type: if has_types(kind) { picture.pic_type().into() } else { Shows::CoverFront },
            mime_type: picture.mime_type().map(|mime| mime.as_str().to_owned()),
            description: picture.description().filter(|text| !text.is_empty()).map(ToOwned::to_owned),
            bytes: picture.data().len(),
        }
    }
}

/// MP4 knows covers only.
pub(crate) fn has_types(kind: TagType) -> bool {
    kind != TagType::Mp4Ilst
}

/// A picture from bytes, which must match their declared type.
pub(crate) fn make(
    bytes: Vec<u8>,
    shows: Shows,
    description: Option<String>,
) -> Result<(Picture, &'static str), ToolError> {
    if bytes.len() > LARGEST {
        return Err(ToolError::new(format!("the picture has {} bytes; the limit is 10 MiB", bytes.len()))
            .hint("make it smaller, or download a smaller one with `mb_cover_download`"));
    }
    let (mime, name) = match kind(&bytes) {
        Some("png") => (MimeType::Png, "image/png"),
        Some("jpg") => (MimeType::Jpeg, "image/jpeg"),
        _ => {
            return Err(ToolError::new("the picture is neither JPEG nor PNG")
                .hint("convert it first: players show little else"));
        }
    };
    let mut picture = Picture::unchecked(bytes).pic_type(shows.into()).mime_type(mime);
    if let Some(text) = description {
        picture = picture.description(text);
    }
    Ok((picture.build(), name))
}

/// The usual ending for a picture, from its first bytes.
pub(crate) fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("png"),
        [0xff, 0xd8, 0xff, ..] => Some("jpg"),
        [b'G', b'I', b'F', b'8', ..] => Some("gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        _ => None,
    }
}

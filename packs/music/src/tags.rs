//! The tags of a file, under one name each in all formats. The table of fields is written once;
//! reading, writing and the schemas follow from it.

pub(crate) mod file;
pub(crate) mod picture;
pub(crate) mod read;
mod stoppable;
pub(crate) mod write;

use lofty::tag::ItemKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A field, and what tag formats call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) key: ItemKey,
}

macro_rules! fields {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ty = $key:ident,)+) => {
        /// All fields that can be read and written. `year` is separate: it is the beginning of `date`.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        pub(crate) struct Tags {
            $(
                $(#[doc = $about])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub(crate) $name: Option<$kind>,
            )+
            /// The year of `date`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(crate) year: Option<u32>,
        }

        /// What should be written into one file.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("not" = { "required": ["year", "date"] }))]
        pub(crate) struct TagChange {
            /// The file.
            pub(crate) path: String,
            $(
                $(#[doc = $about])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub(crate) $name: Option<$kind>,
            )+
            /// The year alone, for `date`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 9999))]
            pub(crate) year: Option<u32>,
            /// Fields to delete, by their names here.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(crate) remove: Vec<String>,
            /// Delete every field that is not given. Pictures stay.
            #[serde(default)]
            pub(crate) clear_existing: bool,
        }

        /// All fields but `year`.
        pub(crate) const FIELDS: &[Field] = &[
            $(Field { name: stringify!($name), key: ItemKey::$key },)+
        ];

        impl Tags {
            /// Takes over what `text` finds for each field.
            pub(crate) fn collect(text: impl Fn(ItemKey) -> Option<String>) -> Self {
                let mut tags = Self::default();
                $(tags.$name = text(ItemKey::$key).and_then(<$kind as Value>::read);)+
                tags.year = tags.date.as_deref().and_then(year_of);
                tags
            }

            /// The fields that have a value, as texts.
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                let mut texts = Vec::new();
                $(if let Some(value) = &self.$name { texts.push((stringify!($name), value.write())); })+
                if let Some(year) = self.year { texts.push(("year", year.to_string())); }
                texts
            }
        }

        impl TagChange {
            /// The given fields as texts, by the key of tag formats.
            pub(crate) fn given(&self) -> Vec<(Field, String)> {
                let mut given = Vec::new();
                $(if let Some(value) = &self.$name {
                    given.push((Field { name: stringify!($name), key: ItemKey::$key }, value.write()));
                })+
                if let Some(year) = self.year {
                    given.push((Field { name: "year", key: ItemKey::RecordingDate }, format!("{year:04}")));
                }
                given
            }
        }
    };
}

fields! {
    /// What the track is called.
    title: String = TrackTitle,
    /// Who plays it, as it is shown.
    artist: String = TrackArtist,
    /// What the album is called.
    album: String = AlbumTitle,
    /// Whose album it is.
    album_artist: String = AlbumArtist,
    /// The number of the track on its disc.
    track: u32 = TrackNumber,
    /// How many tracks the disc has.
    track_total: u32 = TrackTotal,
    /// The number of the disc.
    disc: u32 = DiscNumber,
    /// How many discs there are.
    disc_total: u32 = DiscTotal,
    /// What the disc is called.
    disc_title: String = SetSubtitle,
    /// The genre; several are parted by `; `.
    genre: String = Genre,
    /// A remark.
    comment: String = Comment,
    /// When it was released, such as 1997-05-21, 1997-05 or 1997.
    date: String = RecordingDate,
    /// When the first edition was released.
    original_date: String = OriginalReleaseDate,
    /// Who wrote the music.
    composer: String = Composer,
    /// Who wrote the words.
    lyricist: String = Lyricist,
    /// Who conducts.
    conductor: String = Conductor,
    /// Who arranged it.
    arranger: String = Arranger,
    /// Who plays what.
    performer: String = Performer,
    /// Who made the remix.
    remixer: String = Remixer,
    /// Who produced it.
    producer: String = Producer,
    /// Who mixed it.
    mixer: String = MixEngineer,
    /// The label.
    label: String = Label,
    /// The number in the label's catalogue.
    catalog_number: String = CatalogNumber,
    /// The code on the package.
    barcode: String = Barcode,
    /// The International Standard Recording Code.
    isrc: String = Isrc,
    /// Beats per minute.
    bpm: String = Bpm,
    /// The key it is in.
    initial_key: String = InitialKey,
    /// The mood.
    mood: String = Mood,
    /// The language of the words.
    language: String = Language,
    /// Who owns what.
    copyright: String = CopyrightMessage,
    /// Who or what encoded it.
    encoded_by: String = EncodedBy,
    /// A group that it belongs to.
    grouping: String = ContentGroup,
    /// The work it is part of.
    work: String = Work,
    /// The movement of the work.
    movement: String = Movement,
    /// The words.
    lyrics: String = UnsyncLyrics,
    /// `1` if the album has several artists.
    compilation: String = FlagCompilation,
    /// `title` as it is sorted.
    title_sort: String = TrackTitleSortOrder,
    /// `artist` as it is sorted.
    artist_sort: String = TrackArtistSortOrder,
    /// `album` as it is sorted.
    album_sort: String = AlbumTitleSortOrder,
    /// `album_artist` as it is sorted.
    album_artist_sort: String = AlbumArtistSortOrder,
    /// `composer` as it is sorted.
    composer_sort: String = ComposerSortOrder,
    /// The MusicBrainz id of the recording.
    mb_recording_id: String = MusicBrainzRecordingId,
    /// The MusicBrainz id of the track on the release.
    mb_track_id: String = MusicBrainzTrackId,
    /// The MusicBrainz id of the release.
    mb_release_id: String = MusicBrainzReleaseId,
    /// The MusicBrainz id of the release group.
    mb_release_group_id: String = MusicBrainzReleaseGroupId,
    /// The MusicBrainz id of the artist.
    mb_artist_id: String = MusicBrainzArtistId,
    /// The MusicBrainz id of the artist of the release.
    mb_release_artist_id: String = MusicBrainzReleaseArtistId,
    /// The MusicBrainz id of the work.
    mb_work_id: String = MusicBrainzWorkId,
    /// The AcoustID of the recording.
    acoustid: String = AcoustId,
    /// ReplayGain of the track, such as `-6.48 dB`.
    replaygain_track_gain: String = ReplayGainTrackGain,
    /// The peak of the track, such as `0.988`.
    replaygain_track_peak: String = ReplayGainTrackPeak,
    /// ReplayGain of the album.
    replaygain_album_gain: String = ReplayGainAlbumGain,
    /// The peak of the album.
    replaygain_album_peak: String = ReplayGainAlbumPeak,
}

/// A field by its name; `year` means `date`.
pub(crate) fn field(name: &str) -> Option<Field> {
    let name = if name == "year" { "date" } else { name };
    FIELDS.iter().find(|field| field.name == name).copied()
}

/// The form of a field's value in a file.
trait Value: Sized {
    fn read(text: String) -> Option<Self>;
    fn write(&self) -> String;
}

impl Value for String {
    fn read(text: String) -> Option<Self> {
        (!text.is_empty()).then_some(text)
    }

    fn write(&self) -> String {
        self.clone()
    }
}

impl Value for u32 {
    /// Some write `3/12`, some `03`.
    fn read(text: String) -> Option<Self> {
        let digits = text.trim().split('/').next()?.trim();
        digits.parse().ok().filter(|number| *number > 0)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

fn year_of(date: &str) -> Option<u32> {
    date.get(..4)?.parse().ok().filter(|year| *year > 0)
}

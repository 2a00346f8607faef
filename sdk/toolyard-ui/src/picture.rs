//! A picture of a window, and its two formats.

use crate::{ElementBounds, UiError};

/// The largest picture, in pixels.
const MOST: u64 = 64 << 20;

/// Pixels of a window: red, green, blue, alpha, row by row from the top.
#[derive(Clone, PartialEq)]
pub struct Picture {
    width: u32,
    height: u32,
    /// How many pixels of the picture make one logical pixel.
    scale: f64,
    rgba: Vec<u8>,
}

impl Picture {
    /// A picture from its pixels. `scale` is how many of them make one logical pixel.
    pub fn new(width: u32, height: u32, scale: f64, rgba: Vec<u8>) -> Result<Self, UiError> {
        let pixels = check_size(width, height)?;
        if rgba.len() as u64 != pixels * 4 {
            return Err(wrong_size(width, height));
        }
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        Ok(Self { width, height, scale, rgba })
    }

    /// Its width in pixels.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Its height in pixels.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// How many of its pixels make one logical pixel.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Red, green, blue and alpha of all pixels.
    pub fn rgba(&self) -> &[u8] {
        &self.rgba
    }

    /// The part within these bounds, which are in logical pixels.
    pub fn cut(&self, bounds: &ElementBounds) -> Result<Self, UiError> {
        let visible = bounds.intersection(&crate::ui::area_of(self));
        let left = self.pixel(visible.x, self.width);
        let top = self.pixel(visible.y, self.height);
        let right = self.pixel(visible.x + visible.width, self.width);
        let bottom = self.pixel(visible.y + visible.height, self.height);
        if left >= right || top >= bottom {
            return Err(UiError::new("the element is outside of the visible part of its window"));
        }
        let row_of = |y: u32| {
            let start = (y as usize * self.width as usize + left as usize) * 4;
            &self.rgba[start..start + (right - left) as usize * 4]
        };
        let rgba = (top..bottom).flat_map(row_of).copied().collect();
        Self::new(right - left, bottom - top, self.scale, rgba)
    }

    /// The same with one pixel per logical pixel, so that a place in it is the place to click at. Each pixel is the
    /// average of those that it covers.
    pub fn logical(&self) -> Result<Self, UiError> {
        if self.is_logical() {
            return Ok(self.clone());
        }
        let (width, height) = (self.logical_side(self.width), self.logical_side(self.height));
        check_size(width, height)?;
        let columns = covered(width, self.width, self.scale);
        let rows = covered(height, self.height, self.scale);
        let pixels = rows.iter().flat_map(|row| columns.iter().flat_map(|column| self.average(column, row)));
        Self::new(width, height, 1.0, pixels.collect())
    }

    fn is_logical(&self) -> bool {
        (self.scale - 1.0).abs() < 1e-6
    }

    /// A side of the picture in logical pixels.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is checked")]
    fn logical_side(&self, side: u32) -> u32 {
        (f64::from(side) / self.scale).round().max(1.0) as u32
    }

    /// The average colour of the pixels of some columns and rows. A pixel counts by its share and by its alpha.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
    fn average(&self, columns: &[(u32, f64)], rows: &[(u32, f64)]) -> [u8; 4] {
        let (mut colour, mut alpha, mut area) = ([0.0; 3], 0.0, 0.0);
        for (y, height) in rows {
            for (x, width) in columns {
                let at = (*y as usize * self.width as usize + *x as usize) * 4;
                let [red, green, blue, opacity] = [0, 1, 2, 3].map(|one| f64::from(self.rgba[at + one]));
                let part = width * height;
                for (sum, channel) in colour.iter_mut().zip([red, green, blue]) {
                    *sum += channel * opacity * part;
                }
                alpha += opacity * part;
                area += part;
            }
        }
        let [red, green, blue] = colour.map(|sum| if alpha > 0.0 { sum / alpha } else { 0.0 });
        [red, green, blue, alpha / area].map(|channel| channel.round() as u8)
    }

    /// The pixel at a logical distance from the edge, at most the last one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a u32")]
    fn pixel(&self, logical: f64, most: u32) -> u32 {
        (logical * self.scale).round().clamp(0.0, f64::from(most)) as u32
    }

    /// The picture as a PNG file.
    pub fn png(&self) -> Result<Vec<u8>, UiError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header().map_err(|error| UiError::new(error.to_string()))?;
        writer.write_image_data(&self.rgba).map_err(|error| UiError::new(error.to_string()))?;
        writer.finish().map_err(|error| UiError::new(error.to_string()))?;
        Ok(bytes)
    }

    /// The picture as a JPEG file, with a quality of 1 to 100.
    pub fn jpeg(&self, quality: u8) -> Result<Vec<u8>, UiError> {
        let too_large =
            || UiError::new("a JPEG picture has at most 65,535 pixels per side; ask for PNG instead");
        let width = u16::try_from(self.width).map_err(|_| too_large())?;
        let height = u16::try_from(self.height).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut bytes, quality.clamp(1, 100));
        let result = encoder.encode(&self.rgba, width, height, jpeg_encoder::ColorType::Rgba);
        result.map_err(|error| UiError::new(error.to_string()))?;
        Ok(bytes)
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({} × {})", self.width, self.height)
    }
}

/// How many pixels a picture of this size has.
fn check_size(width: u32, height: u32) -> Result<u64, UiError> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 || pixels > MOST { Err(wrong_size(width, height)) } else { Ok(pixels) }
}

fn wrong_size(width: u32, height: u32) -> UiError {
    UiError::new(format!("a picture of {width} × {height} pixels cannot be taken"))
}

/// For each logical pixel of a side: the pixels that it covers, with the share of each.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a side")]
fn covered(logical: u32, side: u32, scale: f64) -> Vec<Vec<(u32, f64)>> {
    let share = |pixel: u32, start: f64, end: f64| {
        let (left, right) = (f64::from(pixel).max(start), f64::from(pixel + 1).min(end));
        (pixel, (right - left).max(0.0))
    };
    let pixels = |number: u32| {
        // The last one may end beyond the picture, because the sides are rounded.
        let start = (f64::from(number) * scale).min(f64::from(side) - 0.5);
        let end = (f64::from(number + 1) * scale).clamp(start + 1e-6, f64::from(side));
        let last = (end.ceil() as u32).clamp(start as u32 + 1, side);
        (start as u32..last).map(|pixel| share(pixel, start, end)).collect()
    };
    (0..logical).map(pixels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pixel has its column as red and its row as green.
    fn numbered(width: u8, height: u8, scale: f64) -> Picture {
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| [x, y, 0, 255]));
        Picture::new(width.into(), height.into(), scale, pixels.collect()).unwrap()
    }

    #[test]
    fn a_cut_has_the_pixels_within_the_bounds() {
        let cut = numbered(20, 10, 2.0).cut(&ElementBounds::new(2.0, 1.0, 3.0, 2.0)).unwrap();
        assert_eq!((cut.width(), cut.height()), (6, 4));
        assert_eq!(&cut.rgba()[..4], [4, 2, 0, 255]);
        assert_eq!(&cut.rgba()[cut.rgba().len() - 4..], [9, 5, 0, 255]);
    }

    #[test]
    fn a_cut_ends_where_the_picture_ends() {
        let cut = numbered(10, 10, 1.0).cut(&ElementBounds::new(-5.0, 8.0, 100.0, 100.0)).unwrap();
        assert_eq!((cut.width(), cut.height()), (10, 2));
        assert!(numbered(10, 10, 1.0).cut(&ElementBounds::new(50.0, 0.0, 5.0, 5.0)).is_err());
    }

    #[test]
    fn a_logical_picture_averages_the_pixels_that_each_of_its_pixels_covers() {
        let logical = numbered(8, 4, 2.0).logical().unwrap();
        assert_eq!((logical.width(), logical.height(), logical.scale()), (4, 2, 1.0));
        // Columns 0 and 1 are 0.5 on average, 2 and 3 are 2.5; halves are rounded up.
        assert_eq!(&logical.rgba()[..8], [1, 1, 0, 255, 3, 1, 0, 255]);
        let whole = numbered(8, 4, 1.0);
        assert_eq!(whole.logical().unwrap(), whole);
    }

    #[test]
    fn a_logical_picture_of_any_scale_has_its_colours_at_their_places() {
        for (scale, width, height) in [
            (0.5, 480, 240),
            (0.75, 320, 160),
            (1.25, 192, 96),
            (1.5, 160, 80),
            (1.75, 137, 69),
            (2.0, 120, 60),
            (3.0, 80, 40),
        ] {
            // Red from a third of the width on.
            let pixels =
                (0..120).flat_map(|_| (0..240).flat_map(|x| [if x < 80 { 0 } else { 200 }, 7, 0, 255]));
            let picture = Picture::new(240, 120, scale, pixels.collect()).unwrap().logical().unwrap();
            assert_eq!((picture.width(), picture.height()), (width, height), "{scale}");
            let border = 80.0 / scale;
            for (x, colour) in (0..picture.width()).zip(picture.rgba().chunks_exact(4)) {
                let x = f64::from(x);
                let is_mixed = x < border && border < x + 1.0;
                let red = if x < border { 0 } else { 200 };
                assert!(is_mixed || colour == [red, 7, 0, 255], "{scale}: {colour:?} at {x}");
            }
        }
    }

    #[test]
    fn colours_that_cannot_be_seen_do_not_change_a_logical_pixel() {
        let pixels = vec![200, 0, 0, 255, 0, 99, 99, 0];
        let logical = Picture::new(2, 1, 2.0, pixels).unwrap().logical().unwrap();
        assert_eq!(logical.rgba(), [200, 0, 0, 128]);
    }

    #[test]
    fn a_scale_that_would_make_a_huge_picture_is_refused() {
        let picture = Picture::new(2, 2, 1e-9, vec![0; 16]).unwrap();
        assert!(picture.logical().unwrap_err().to_string().contains("cannot be taken"));
    }

    #[test]
    fn a_png_is_read_back_as_the_same_pixels() {
        let picture = numbered(7, 5, 1.0);
        let file = picture.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, picture.rgba());
    }

    #[test]
    fn a_jpeg_begins_like_one_and_lower_quality_is_smaller() {
        let picture = numbered(64, 64, 1.0);
        let (good, poor) = (picture.jpeg(95).unwrap(), picture.jpeg(5).unwrap());
        assert!(good.starts_with(&[0xff, 0xd8, 0xff]));
        assert!(poor.len() < good.len());
    }

    #[test]
    fn pixels_that_do_not_fit_the_size_are_refused() {
        assert!(Picture::new(2, 2, 1.0, vec![0; 15]).is_err());
        assert!(Picture::new(0, 2, 1.0, vec![]).is_err());
    }
}

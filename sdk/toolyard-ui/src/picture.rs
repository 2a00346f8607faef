//! A picture of a window, and its two formats.

use crate::{ElementBounds, UiError};

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
    /// The largest picture, in pixels.
    const MOST: u64 = 64 << 20;

    /// A picture from its pixels. `scale` is how many of them make one logical pixel.
    pub fn new(width: u32, height: u32, scale: f64, rgba: Vec<u8>) -> Result<Self, UiError> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels == 0 || pixels > Self::MOST || rgba.len() as u64 != pixels * 4 {
            return Err(UiError::new(format!("a picture of {width} × {height} pixels cannot be taken")));
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

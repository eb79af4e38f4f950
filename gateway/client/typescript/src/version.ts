/** The version of this package; a release sets it. */
export const version = '0.0.0';

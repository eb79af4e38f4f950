package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muniment.example/control/mailer"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// cleanOutbox removes the mails to members who were removed or erased, and to those who have signed in and whose links
// work no more. It leaves other files alone.
func (s *Service) cleanOutbox(ctx context.Context) error {
	if s.cfg.Mails.Outbox == "" {
		return nil
	}
	files, err := os.ReadDir(s.cfg.Mails.Outbox)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look through the outbox: %w", err)
	}
	for _, file := range files {
		id, isMail := strings.CutSuffix(file.Name(), mailer.File)
		if !isMail || !api.IsID(api.PrefixMember, id) {
			continue
		}
		m, err := findAny(ctx, s.db.Read(), id)
		if err != nil && !store.IsNone(err) {
			return err
		}
		if err == nil && m.State != Removed && !m.erased() {
			open, err := store.One(ctx, s.db.Read(), "a link", store.Text, `SELECT member_id FROM member_links WHERE member_id = $1 AND expires_at > $2 LIMIT 1`, id, store.At(s.db.Now()))
			if err != nil {
				return err
			}
			if m.State == Invited || open != nil {
				continue
			}
		}
		if err := os.Remove(filepath.Join(s.cfg.Mails.Outbox, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove a mail from the outbox: %w", err)
		}
	}
	return nil
}
